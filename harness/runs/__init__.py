"""A run: its scenario, what is recorded in which phase, and what becomes of it."""
