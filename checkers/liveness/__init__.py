"""Liveness: what consumers of the load did not get in time, and why."""
