"""Reports about opened models: JSON-able values first, text made from them. Prints nothing."""
