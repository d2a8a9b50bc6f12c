"""Builders of the corpus of safetensors (single files and sets): one function for each file.

Independent of every reader and writer: bytes are laid out here, by the format's description.
"""
