"""Groups: who owns a partition, what a group commits that it never read, and what it never got."""
