"""Builders of the corpus of NInfer v3 (`.ninfer`): one function for each file of `ninfer/`.

Independent of every reader and writer: bytes are laid out here, by the text of the specification.
"""
