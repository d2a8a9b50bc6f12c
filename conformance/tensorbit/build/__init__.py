"""Builders of the corpus of Tensorbit (`.tb`, `.tbm`, directories): one function for each file.

Independent of every reader and writer: bytes are laid out here, by the text of the specification.
"""
