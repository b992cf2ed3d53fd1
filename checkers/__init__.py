"""What decides from a history whether promises were kept: one module per family of anomaly."""
