"""Leaving nothing behind: what is made is written down first, and undone however the harness ends."""
