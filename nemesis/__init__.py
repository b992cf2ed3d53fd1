"""What breaks a cluster under test: one module per family of fault."""
