"""From bytes to numbers and back: the only place below `api` that imports numpy."""
