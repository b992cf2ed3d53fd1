"""A benchmark as a command: an error is one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.foundation.errors import TidegaugeError


def run_command(main: Callable[[], None]) -> None:
    """Run it; what the harness raises is written without a traceback."""
    try:
        main()
    except TidegaugeError as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)
