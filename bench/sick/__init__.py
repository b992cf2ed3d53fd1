"""Histories of really sick brokers: `bench.sick.shapes` lists them all."""
