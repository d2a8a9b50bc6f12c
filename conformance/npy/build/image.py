"""Raw array files: magic, version, length, text, data. Never checks anything."""

from __future__ import annotations

MAGIC = b"\x93NUMPY"


def npy(text: str, data: bytes, version: int = 1) -> bytes:
    """Return a file with this text as its header."""
    encoded = text.encode("utf-8" if version == 3 else "latin-1")
    length = len(encoded).to_bytes(2 if version == 1 else 4, "little")
    return MAGIC + bytes((version, 0)) + length + encoded + data


def array(descr: str, shape: str, data: bytes, *, fortran: bool = False, version: int = 1) -> bytes:
    """Return a file with a header as numpy writes it, padded to a multiple of 64."""
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    width = 10 if version == 1 else 12
    return npy(text + " " * (-(len(text) + 1 + width) % 64) + "\n", data, version)
