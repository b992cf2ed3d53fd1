"""`python -m harness` is the `tidegauge` command."""

from harness.commands.main import main

main()
