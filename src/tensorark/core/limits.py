"""Every cap that can be set, in one place, with the reason for its number; none is enforced here.

Caps of a specification (such as the 1 GiB manifest of `.zt` §3.1) are rules, not limits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The caps a reader works under; all in bytes unless said otherwise."""

    safetensors_header: int = 1 << 30
    """The public library stops at 100 MB and users with 1.3 million tensors met that; one GiB is
    the same cap as a `.zt` manifest."""

    zt_manifest: int = 1 << 30
    """The cap of the format (§3.1); lower it where files come from strangers."""

    index_file: int = 1 << 30
    """A shard index in JSON; files above 20 MB exist, so the cap equals a header's."""

    ninfer_directory: int = 256 << 20
    """The JSON text of a `.ninfer`; 100,000 objects take some tens of MB."""

    npz_headers: int = 1 << 20
    """The headers of an archive that are long, or spelled unlike those of numpy, together:
    deflated, one of a megabyte takes a kilobyte. Of a million plain arrays none counts."""

    free_values: int = 1 << 16
    """Values (elements, members) of a JSON header or index, and items of a `.zt` manifest, that
    need no length of their own. Beyond them a text holds one for six bytes, a manifest one for
    four: an empty list is two bytes in a file and sixty in memory, and no model is made of them.
    At most so many entries may be none at all (no map, no shape, no type), and a text from which
    more is made than 512 bytes for each of them may hold no more than 16 times its length."""

    small_frames: int = 1 << 14
    """Frames of one part that hold less than a KiB each on average: each costs about 40 µs."""

    decoded: int = 1 << 48
    """Decoded bytes that one read may allocate (§8.1 of `.zt` asks for a cap). A raw part cannot
    exceed its file; this stops invented sizes before they reach the allocator."""


DEFAULT = Limits()
