"""Comparing runs: what got worse, what got better, and what nobody can tell yet."""
