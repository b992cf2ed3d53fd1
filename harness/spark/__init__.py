"""Spark: where it runs, the JVM on this machine, and a session that is ready when it is needed."""
