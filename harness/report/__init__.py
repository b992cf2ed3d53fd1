"""What is made of a run's results for people and other programs: the report, comparisons, and files for CI."""
