"""The layout `zt.sparse_coo/1`: values and their coordinates."""
