"""The layout `tensorbit.nm/1`, ours: N:M sparsity, weights with a mask."""
