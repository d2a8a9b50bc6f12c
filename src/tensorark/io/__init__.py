"""Where bytes come from and go to: sources, whole-file loading, atomic publication.

Owns every system call of the library. Must never know a format: it is told spans and buffers, and
answers with exactly those bytes or with an error.
"""
