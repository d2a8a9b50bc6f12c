"""The builders of the corpus: one function per file, and the tools they are made of.

Nothing here imports a library that reads or writes `.zt`: the corpus must be able to contradict
every one of them.
"""
