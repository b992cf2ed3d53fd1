"""`python -m harness` is the `tidegauge` command."""

from harness.cli import main

main()
