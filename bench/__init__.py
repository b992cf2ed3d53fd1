"""Benchmarks: speed is measured here, as ratios within one run, and never asserted in tests."""
