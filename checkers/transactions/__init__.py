"""Transactions: what of them became visible, and whether that agrees with how they ended."""
