"""What a wheel holds besides our packages: the launcher at its top, and what lies at the top of a checkout.

Only a real wheel: an editable install uses all of this where it is.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACES = {
    "harness/launcher/tidegauge": "tidegauge",
    "docker-compose.yml": "tidegauge/_code/harness/clusters/docker-compose.yml",
    "suites": "tidegauge/_code/harness/suites",
}


class WheelHook(BuildHookInterface[Any]):
    """Adds them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is the kind of wheel."""
        if version == "standard":
            build_data["force_include"].update(PLACES)
