"""What is told of a run beside findings: figures, coverage, series for charts, and what lay around a finding."""
