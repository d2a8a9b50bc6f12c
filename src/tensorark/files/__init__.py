"""Opened files: open(), File, views, folders, and the files that one names."""
