"""`python -m tidegauge` is the `tidegauge` command."""

from tidegauge import main

main()
