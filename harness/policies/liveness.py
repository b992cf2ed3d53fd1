"""Liveness."""

from __future__ import annotations

from harness.policies.case import Policy

POLICIES: dict[str, Policy] = {}
