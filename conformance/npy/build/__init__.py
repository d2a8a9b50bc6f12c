"""Builders of the corpus of npy: one function for each file.

Independent of every reader and writer: bytes are laid out here, by numpy's description of `.npy`.
"""
