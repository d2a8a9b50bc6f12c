"""Numbers that layouts share: types as arrays, bits, groups, rounding. All of it needs numpy."""
