"""The published vocabulary of layouts, as immutable values. No numpy."""
