"""Builders of the corpus of `.zt`: one function for each file, and the tools they are made of."""
