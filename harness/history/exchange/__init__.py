"""Histories of others: what any program may write, taken into the store and given out of it (docs/history.md)."""
