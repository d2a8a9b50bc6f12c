"""The encodings `npy.array/1` and `npy.deflate/1`: arrays as numpy stores them."""
