"""The encoding `zt.zstd-seekable/1` (§5.3): zstd in frames that can be read alone."""
