"""Delivery: what clients sent, what was acknowledged, and what readers were handed."""
