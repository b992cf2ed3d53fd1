"""Order: members of groups begin where the group is, clients may go back, retries come late, and logs be cut off."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.policies.case import FindingCase, Mark, Policy
from harness.judging.policies.delivery import DUPLICATES_REQUESTS, OF_PRODUCERS


def _judge_step(case: FindingCase) -> Mark:
    if "rebalance" in case.finding.tags:
        return Mark("allowed", "rebalance")
    return Mark("illegal")


def _judge_step_back(case: FindingCase) -> Mark:
    """A broker that gives what it is asked for again is not wrong."""
    mark = _judge_step(case)
    if mark.status == "illegal" and "client asked again" in case.finding.tags:
        return case.by_client("client-asked-again")
    return mark


def _judge_gap(case: FindingCase) -> Mark:
    if case.facts.imported and "transactions" not in case.finding.tags:
        return Mark("unproven", "markers-unknown")
    return _judge_step(case)


def _judge_send(case: FindingCase) -> Mark:
    """By its producer where the history knows it, else by how the run was set up."""
    finding, facts = case.finding, case.facts
    numbered = facts.idempotence if OF_PRODUCERS.isdisjoint(finding.tags) else "plain" not in finding.tags
    if not numbered and facts.retries != 0 and not case.never_retried:
        return Mark("allowed", "late-retry")
    if not numbered and case.came({fault.name for fault in facts.faults} & {DUPLICATES_REQUESTS}):
        return Mark("allowed", "requests-sent-twice")
    if "transactional" not in finding.tags and facts.quirks.resends_across_leaders and case.leaders_changed:
        return case.by_client("client-resends")
    return Mark("illegal")


_BACK = Policy(
    _judge_step_back,
    by_own_deletion=True,
    by_deletion=True,
    by_configuration=True,
    by_leader_change=True,
    by_unclean_election=True,
)
_SKIP = replace(_BACK, judge=_judge_step, by_absence=True)
_SEND = replace(_BACK, judge=_judge_send)

POLICIES: dict[str, Policy] = {
    "poll-skip": _SKIP,
    "int-poll-skip": _SKIP,
    "nonmonotonic-poll": _BACK,
    "int-nonmonotonic-poll": _BACK,
    "gap": replace(_SKIP, judge=_judge_gap),
    "nonmonotonic-send": _SEND,
    "int-nonmonotonic-send": _SEND,
}
