"""Measures tensorark on this machine, beside the public libraries and the machine's own limits."""
