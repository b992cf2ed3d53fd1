"""Cycles of transactions: each would have to come before the other."""
