"""Requests to the cluster under test that change something, or that ask who is who."""
