"""Whether files are what they should be: digests, differences, seals, signatures."""
