"""Models made from models: split, merged, overlaid, pruned, repaired; and their metadata."""
