"""Metadata: what nodes say of brokers and leaders, compared with each other and over time."""
