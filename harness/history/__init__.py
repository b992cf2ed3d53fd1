"""The history of a run: schema, segments, sealing, the store, exchange with other programs."""
