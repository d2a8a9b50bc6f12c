"""The core layout `dense` (§5.1): one part of row-major values."""
