"""Files of `reject/` with a wrong frame, text or directory (sections 1 to 10).

The name of a function is the rule its file breaks, and behind two underscores how.
"""

from __future__ import annotations

from .image import (
    PART_MAGIC,
    TEMPLATE,
    WORDS,
    changed,
    entry,
    part,
    resource,
    tensor,
    text_of,
    usual,
    without,
)

_USUAL = text_of(usual())
_BF16 = ("bf16", "contiguous_le_v1")


def _text(old: bytes, new: bytes) -> bytes:
    """Return the usual file with some bytes of its text replaced."""
    assert _USUAL.count(old) >= 1
    return entry(_USUAL.replace(old, new, 1))


# ------------------------------------------------------------------------------------------- frame


def file_size() -> bytes:
    """The file has 31 bytes."""
    return entry(usual())[:31]


def magic() -> bytes:
    """One letter of the magic is another one."""
    return entry(usual(), magic=b"NINFER\x01\x03")


def magic__continuation() -> bytes:
    """The file is a continuation, and is opened as if it were the entry."""
    return part(1, bytes(16))


def magic__part_magic_on_an_entry() -> bytes:
    """An entry carries the magic of a continuation."""
    return entry(usual(), magic=PART_MAGIC)


def json_bytes() -> bytes:
    """The length of the text is 0."""
    return entry(usual(), json_bytes=0)


def json_bounds() -> bytes:
    """The text is one byte longer than the rest of the file."""
    whole = entry(usual())
    return entry(usual(), json_bytes=len(whole) - 31)


def json_bounds__overflow() -> bytes:
    """The length of the text is 2^64 - 1, which overflows when 32 is added."""
    return entry(usual(), json_bytes=(1 << 64) - 1)


# ------------------------------------------------------------------------------------------ syntax


def json_bom() -> bytes:
    """A byte order mark stands before the text."""
    return entry(b"\xef\xbb\xbf" + _USUAL)


def json_utf8() -> bytes:
    """A string holds the byte FF."""
    return _text(b"Example", b"Exam\xffple")


def json_surrogate() -> bytes:
    """A string in `config` holds half of a surrogate pair."""
    return _text(b"Example", b"\\ud800")


def json_syntax() -> bytes:
    """A comma is missing between two members."""
    return _text(b',"uses"', b' "uses"')


def json_syntax__nothing() -> bytes:
    """The text is white space alone."""
    return entry(b" " * 40)


def json_syntax__comment() -> bytes:
    """A comment stands between two members."""
    return _text(b',"uses"', b',/* uses */"uses"')


def json_syntax__leading_zero() -> bytes:
    """An integer begins with a zero."""
    return _text(b'"bytes":8', b'"bytes":08')


def json_trailing() -> bytes:
    """A zero byte follows the value, inside the length of the text."""
    return entry(_USUAL + b"\0")


def json_constant() -> bytes:
    """A number in `config` is NaN."""
    return _text(b"1e-06", b"NaN")


def json_number() -> bytes:
    """A number in `config` is beyond a double."""
    return _text(b"1e-06", b"1e999")


def json_number__in_provenance() -> bytes:
    """A number deep inside `provenance` is beyond a double."""
    return _text(b',"uses"', b',"provenance":{"a":[{"b":-2e400}]},"uses"')


def json_duplicate() -> bytes:
    """The root has two members of one name."""
    return _text(b',"uses"', b',"bindings":{},"uses"')


def json_duplicate__in_config() -> bytes:
    """`config` has a name twice, once with an escape."""
    return _text(b'"rms_norm_eps":1e-06', b'"rms_norm_eps":1,"rms_norm_\\u0065ps":2')


# ------------------------------------------------------------------------------------------ schema


def root_object() -> bytes:
    """The directory is a list."""
    return entry([])


def root_fields() -> bytes:
    """`uses` is missing."""
    return without("uses")


def root_fields__unknown() -> bytes:
    """The root has a member nobody defined."""
    return changed("version", 3)


def files() -> bytes:
    """`files` is empty."""
    return changed("files", [])


def files__object() -> bytes:
    """`files` is an object."""
    return changed("files", {"0": {"path": None, "payload_bytes": 13}})


def objects() -> bytes:
    """`objects` is empty."""
    return entry(usual(objects=[], bindings={}, uses=[], components={"text": {"config": {}}}))


def components() -> bytes:
    """`components` is empty."""
    return changed("components", {})


def bindings() -> bytes:
    """`bindings` is a list."""
    return entry(usual(bindings=[], uses=[]))


def uses() -> bytes:
    """`uses` is an object."""
    return changed("uses", {})


def metadata() -> bytes:
    """`metadata` is null, which is not absence."""
    return changed("metadata", None)


def provenance() -> bytes:
    """`provenance` is text."""
    return changed("provenance", "a checkpoint")


def file_fields() -> bytes:
    """A line of the files table carries a checksum."""
    return changed("files/0/sha256", "00")


def file_fields__missing() -> bytes:
    """A line of the files table has no size."""
    return without("files/0/payload_bytes")


def file_fields__text() -> bytes:
    """A line of the files table is text."""
    return changed("files", [{"path": None, "payload_bytes": 13}, "second"])


def component_fields() -> bytes:
    """A component has no `config`."""
    return without("components/text/config")


def component_fields__proposal() -> bytes:
    """A component other than text has a proposal."""
    return changed(
        "components/mtp", {"config": {}, "target": "text", "proposal": {"domain": "full"}}
    )


def object_kind() -> bytes:
    """An object is of a kind nobody defined."""
    return changed("objects/0/kind", "blob")


def object_kind__missing() -> bytes:
    """An object has no kind."""
    return without("objects/1/kind")


def object_kind__text() -> bytes:
    """An object is text."""
    return changed("objects/1", "template")


def object_fields() -> bytes:
    """A tensor has a member nobody defined."""
    return changed("objects/0/name", "w")


def object_fields__missing() -> bytes:
    """A tensor has no layout."""
    return without("objects/0/layout")


def object_fields__resource_shape() -> bytes:
    """A resource has a shape."""
    return changed("objects/1/shape", [5])


def use_fields() -> bytes:
    """A use has a note."""
    return changed("uses/0/note", "")


def use_fields__no_input() -> bytes:
    """A use has no input."""
    return without("uses/0/input")


def use_fields__text() -> bytes:
    """A use is text."""
    return changed("uses/0", "text/whole")


def use_auxiliaries() -> bytes:
    """The auxiliaries of a use are a list."""
    return changed("uses/0/auxiliaries", [])


def binding_form() -> bytes:
    """A binding has both forms."""
    both = {"object": "w", "parts": [{"object": "w", "range": [0, 4]}]}
    return changed("bindings/text~", both)


def binding_form__neither() -> bytes:
    """A binding is an empty object."""
    return changed("bindings/text~", {})


def binding_form__auxiliary() -> bytes:
    """The binding of an auxiliary is text."""
    return changed("uses/0/auxiliaries", {"activation_input_divisor": "w"})


def binding_parts() -> bytes:
    """A binding has an empty list of parts."""
    return changed("bindings/text~", {"parts": []})


def binding_parts__object() -> bytes:
    """The parts of a binding are an object."""
    return changed("bindings/text~", {"parts": {"object": "w", "range": [0, 4]}})


def part_fields() -> bytes:
    """A part has a stride."""
    return changed("bindings/text~", {"parts": [{"object": "w", "range": [0, 4], "stride": 1}]})


def part_fields__list() -> bytes:
    """A part is a list."""
    return changed("bindings/text~", {"parts": [["w", 0, 4]]})


def file_path() -> bytes:
    """The entry has a path."""
    return changed("files/0/path", "x.ninfer")


def _second(path: object) -> bytes:
    lines = [{"path": None, "payload_bytes": 13}, {"path": path, "payload_bytes": 1}]
    return changed("files", lines)


def file_path__null() -> bytes:
    """A continuation has no path."""
    return _second(None)


def file_path__slash() -> bytes:
    """A continuation lies in a folder."""
    return _second("parts/one")


def file_path__backslash() -> bytes:
    """The path of a continuation has a backslash."""
    return _second("parts\\one")


def file_path__dots() -> bytes:
    """A continuation is the folder above."""
    return _second("..")


def file_path__empty() -> bytes:
    """The path of a continuation is empty."""
    return _second("")


def file_bytes() -> bytes:
    """A continuation has no payload."""
    lines = [{"path": None, "payload_bytes": 13}, {"path": "x", "payload_bytes": 0}]
    return changed("files", lines)


def file_bytes__real() -> bytes:
    """The payload of the entry is 13.0 bytes."""
    return changed("files/0/payload_bytes", 13.0)


def id_text() -> bytes:
    """The id of an object is empty."""
    return changed("objects/1/id", "")


def id_text__nul() -> bytes:
    """The name of a parameter holds U+0000."""
    return changed("bindings/a\0b", {"object": "w"})


def id_text__number() -> bytes:
    """The format of a tensor is a number."""
    return changed("objects/0/format", 16)


def object_shape() -> bytes:
    """A dimension is zero."""
    return changed("objects/0/shape", [2, 0])


def object_shape__rank() -> bytes:
    """A shape has 17 dimensions."""
    return changed("objects/0/shape", [1] * 15 + [2, 2])


def object_shape__text() -> bytes:
    """A shape is text."""
    return changed("objects/0/shape", "2x2")


def object_shape__boolean() -> bytes:
    """A dimension is true."""
    return changed("objects/0/shape", [4, True])


def object_offset() -> bytes:
    """An offset is -1."""
    return changed("objects/0/offset", -1)


def object_offset__real() -> bytes:
    """An offset is 0.0, which is a real number."""
    return changed("objects/0/offset", 0.0)


def object_offset__boolean() -> bytes:
    """An offset is false."""
    return changed("objects/0/offset", value=False)


def object_offset__2_64() -> bytes:
    """An offset is 2^64."""
    return changed("objects/1/offset", 1 << 64)


def object_bytes() -> bytes:
    """A resource has no bytes."""
    return changed("objects/1/bytes", 0)


def object_bytes__text() -> bytes:
    """A size is text."""
    return changed("objects/0/bytes", "8")


def object_divisors() -> bytes:
    """A tensor has zero divisors."""
    return changed("objects/0/divisors", 0)


def component_values() -> bytes:
    """`config` is a list."""
    return changed("components/text/config", [])


def component_values__resources() -> bytes:
    """`resources` is null."""
    return changed("components/text/resources", None)


def proposal() -> bytes:
    """A proposal has a domain nobody defined."""
    return changed("components/text/proposal", {"domain": "part"})


def proposal__full_with_rows() -> bytes:
    """A full proposal states rows."""
    return changed("components/text/proposal", {"domain": "full", "rows": 8})


def proposal__indexed_without_rows() -> bytes:
    """An indexed proposal has no rows."""
    return changed("components/text/proposal", {"domain": "indexed"})


def _range(value: object) -> bytes:
    return changed("bindings/text~", {"parts": [{"object": "w", "range": value}]})


def part_range() -> bytes:
    """A range ends where it begins."""
    return _range([2, 2])


def part_range__reversed() -> bytes:
    """A range ends before it begins."""
    return _range([3, 1])


def part_range__real() -> bytes:
    """The end of a range is a real number."""
    return _range([0, 1.0])


def part_range__three() -> bytes:
    """A range has three ends."""
    return _range([0, 1, 2])


def use_policy() -> bytes:
    """A policy is spelled in another way."""
    return changed("uses/0/activation_policy", "A16only")


def use_policy__null() -> bytes:
    """A policy is null, which is not absence."""
    return changed("uses/0/activation_policy", None)


def metadata_name() -> bytes:
    """The public name is empty."""
    return changed("metadata", {"name": ""})


# -------------------------------------------------------------------------------------------- open


def payload_size() -> bytes:
    """Two files have 2^64 bytes of payload together."""
    lines = [
        {"path": None, "payload_bytes": 13},
        {"path": "x", "payload_bytes": (1 << 64) - 13},
    ]
    return changed("files", lines)


def payload_size__entry() -> bytes:
    """The entry has 2^64 - 1 bytes of payload, and its directory before them."""
    return changed("files/0/payload_bytes", (1 << 64) - 1)


def payload_size__three() -> bytes:
    """Three files have more than 2^64 bytes of payload together, no two of them."""
    lines = [
        {"path": path, "payload_bytes": size}
        for path, size in ((None, 13), ("x", 1 << 63), ("y", (1 << 63) - 1))
    ]
    return changed("files", lines)


def file_path_unique() -> bytes:
    """Two continuations have one name."""
    lines = [{"path": path, "payload_bytes": 13} for path in (None, "x", "x")]
    return changed("files", lines)


def entry_size() -> bytes:
    """The last byte of the payload is missing."""
    return entry(usual())[:-1]


def entry_size__long() -> bytes:
    """A byte follows the payload."""
    return entry(usual()) + b"\0"


def object_id_unique() -> bytes:
    """A tensor and a resource have one id."""
    found = usual(components={"text": {"config": {}}}, bindings={}, uses=[])
    found["objects"] = [
        tensor("w", [2, 2], *_BF16, 0, 8),
        resource("w", 8, 5),
    ]
    return entry(found)


def shape_elements() -> bytes:
    """A shape has 2^66 elements."""
    return changed("objects/0/shape", [1 << 33, 1 << 33])


def object_order() -> bytes:
    """The second object lies before the first."""
    found = usual(
        objects=[resource("template", 8, 5), tensor("w", [2, 2], *_BF16, 0, 8)],
    )
    return entry(found)


def object_overlap() -> bytes:
    """A resource begins with the last byte of a tensor."""
    return changed("objects/1/offset", 7)


def object_overlap__same() -> bytes:
    """Two objects have the same bytes: what is shared is one object."""
    found = usual(bindings={"a": {"object": "w"}, "b": {"object": "v"}}, uses=[])
    found["objects"] = [
        tensor("w", [2, 2], *_BF16, 0, 8),
        tensor("v", [2, 2], *_BF16, 0, 8),
        resource("template", 8, 5),
    ]
    return entry(found)


def object_bounds() -> bytes:
    """A resource runs past the payload."""
    return changed("objects/1/bytes", 6)


def object_bounds__overflow() -> bytes:
    """Offset and size of a resource are more than 2^64 together."""
    return changed("objects/1/bytes", (1 << 64) - 1)


def binding_object() -> bytes:
    """A binding refers to nothing."""
    return changed("bindings/text~", {"object": "v"})


def binding_object__resource() -> bytes:
    """A part refers to a resource."""
    return changed("bindings/text~", {"parts": [{"object": "template", "range": [0, 1]}]})


def binding_object__auxiliary() -> bytes:
    """An auxiliary refers to nothing."""
    return changed("uses/0/auxiliaries", {"activation_input_divisor": {"object": "v"}})


def part_bounds() -> bytes:
    """A range ends behind the last element."""
    return _range([0, 5])


def parts_elements() -> bytes:
    """The parts of a binding have 2^64 elements together."""
    half = {"object": "big", "range": [0, 1 << 63]}
    found = usual(bindings={"twice": {"parts": [half, half]}}, uses=[])
    found["objects"] = [
        tensor("big", [1 << 63], *_BF16, 0, 8),
        resource("template", 8, 5),
    ]
    return entry(found)


def use_parameter() -> bytes:
    """A use takes a parameter that is not bound."""
    return changed("uses/0/parameter", "text/none")


def use_unique() -> bytes:
    """A parameter has two uses at one input."""
    use = {"parameter": "text/whole", "input": "text/in"}
    return changed("uses", [use, use | {"activation_policy": "AllowA8"}])


def component_target() -> bytes:
    """The target of a component is not there."""
    return changed("components/mtp", {"config": {}, "target": "draft"})


def resource_object() -> bytes:
    """A role refers to a tensor."""
    return changed("components/text/resources", {"chat_template.jinja": "w"})


def resource_object__missing() -> bytes:
    """A role refers to nothing."""
    return changed("components/text/resources", {"chat_template.jinja": "gone"})


assert len(WORDS + TEMPLATE) == 13
