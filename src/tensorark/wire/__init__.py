"""Encodings that several formats share: bytes in, plain values out. No format, no file."""
