"""What clients do to a cluster under test: one module per workload."""
