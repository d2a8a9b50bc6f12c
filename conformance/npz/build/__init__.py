"""Builders of the corpus of npz archives: one function for each file.

Independent of every reader and writer: bytes are laid out here, by the descriptions of zip and npy.
"""
