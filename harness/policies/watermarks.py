"""Watermarks: a new leader has to learn them, and one that was deposed may not know it yet."""

from __future__ import annotations

from harness.policies.case import Case, Mark, Policy


def _judge_regression(case: Case) -> Mark:
    tags, changed = case.finding.tags, case.leaders_changed
    across = "across nodes" in tags
    if case.unclean and changed:
        return Mark("allowed", "unclean leader election is on, and a fault changes leaders")
    if "older epoch" in tags and across and changed:
        return Mark("allowed", "a leader that a fault had deposed answered before it knew of its successor")
    if case.finding.anomaly == "end-offset-regression":
        return Mark("illegal")  # KIP-207: a new leader does not tell its end before it knows it
    if "epoch rose" in tags:
        return Mark("allowed", "a new leader does not know the high watermark before it has heard from its followers")
    if "epoch unknown" in tags and across and changed:
        return Mark("allowed", "another node, and a fault changes leaders; no leader epoch is known")
    return Mark("illegal")


_REGRESSION = Policy(
    _judge_regression,
    by_own_deletion=True,
    by_deletion=True,
    by_configuration=True,
    by_unclean_election=True,
    certain=lambda case: "one epoch" in case.finding.tags,
    seen_at_its_time=True,
)

POLICIES: dict[str, Policy] = {
    "watermark-regression": _REGRESSION,
    "end-offset-regression": _REGRESSION,
}
