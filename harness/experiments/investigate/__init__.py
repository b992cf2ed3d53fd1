"""Investigating: one scenario with one thing changed at a time, until it is known what matters."""
