"""Writes docs/scenario.schema.json: `python -m harness.runs.scenario_schema`, what `make schema` does."""

from __future__ import annotations

import json

from harness.foundation.paths import PACKAGE
from harness.runs.scenario import json_schema

if __name__ == "__main__":
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    (PACKAGE.parent / "docs" / "scenario.schema.json").write_text(text, encoding="utf-8")
