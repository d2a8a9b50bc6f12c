"""The layout `zt.sparse_csr/1`: values, their columns, and where rows begin."""
