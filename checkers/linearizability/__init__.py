"""Linearizability of each partition, and what else offsets say by themselves."""
