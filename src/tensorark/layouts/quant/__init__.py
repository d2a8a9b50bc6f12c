"""The layout `zt.quant_group/1`: codes with scales and zero points by groups."""
