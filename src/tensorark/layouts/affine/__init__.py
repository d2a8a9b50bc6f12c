"""The layout `mlx.affine/1`, ours: quantized tensors of MLX, kept without rounding."""
