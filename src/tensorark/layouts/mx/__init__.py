"""The layout `zt.mx/1`: elements that share a power of two by blocks."""
