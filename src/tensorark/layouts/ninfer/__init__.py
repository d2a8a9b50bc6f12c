"""The numeric formats of NInfer v3 (§6.1) as numbers, both ways, and what their words must obey."""
