"""NInfer artifacts: their files, resources and objects, packing checkpoints and unpacking them."""
