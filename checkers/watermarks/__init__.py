"""Watermarks: what nodes showed of a partition, in real time."""
