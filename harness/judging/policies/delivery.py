"""Delivery: lost with weak acknowledgements, written twice without idempotence, gone with a topic."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.policies.case import OF_WRITES, FindingCase, Mark, Policy

DUPLICATES_REQUESTS = "duplicate-requests"
OF_PRODUCERS = frozenset({"plain", "idempotent", "transactional"})  # tags of a duplicate


def _judge_duplicate(case: FindingCase) -> Mark:
    """By its producer where the history knows it, else by how the run was set up."""
    finding, facts = case.finding, case.facts
    planned = {fault.name for fault in facts.faults}
    numbered = facts.idempotence if OF_PRODUCERS.isdisjoint(finding.tags) else "plain" not in finding.tags
    if not numbered and case.came(planned & {DUPLICATES_REQUESTS}):
        return Mark("allowed", "requests-sent-twice")
    if not numbered and facts.retries != 0 and not case.never_retried:
        return Mark("allowed", "retry-appended")
    return Mark("illegal") if "transactional" in finding.tags else _judge_resent(case, planned)


def _judge_resent(case: FindingCase, planned: set[str]) -> Mark:
    """A client that restarts its sequence numbers, as it does when a batch expires, may write a batch again."""
    facts = case.facts
    if "numbered anew" in case.finding.tags:
        return Mark("possibly the client", "renumbered")
    if facts.quirks.resends_across_leaders and facts.changes_leaders:
        return case.by_client("client-resends")
    if not facts.exchanges and case.came(planned):
        return case.by_client("renumbered-unseen")
    return Mark("illegal")


def _judge_unseen(case: FindingCase) -> Mark:
    if case.facts.interrupted:
        return Mark("unproven", "interrupted")
    return Mark("illegal")


def _judge_false_ack(case: FindingCase) -> Mark:
    """By what brokers said: some libraries take a batch without an answer for written when a later one was.

    The history of others need not say offsets; where it says that one is negative, the broker did.
    """
    if case.facts.imported and case.finding.offset is None:
        return Mark("allowed", "offset-unsaid")
    if "no offset" not in case.finding.tags or not case.facts.quirks.assumes_acks:
        return Mark("illegal")
    offsetless = case.results.figures.offsetless
    if offsetless == 0 and case.taps_saw_all:
        return Mark("allowed", "client-assumed")
    if not offsetless and case.came({fault.name for fault in case.facts.faults}):
        return case.by_client("client-may-assume")
    return Mark("illegal")


_OF_TWO = replace(OF_WRITES, by_own_deletion=True)
_OF_A_WRITE = replace(_OF_TWO, by_absence=True)

POLICIES: dict[str, Policy] = {
    "lost-write": _OF_A_WRITE,
    "lost-tail": _OF_A_WRITE,
    "unseen": replace(_OF_A_WRITE, judge=_judge_unseen),
    "phantom": Policy(by_absence=True),
    "inconsistent-offset": _OF_TWO,
    "shared-offset": _OF_TWO,
    "aborted-read": Policy(by_deletion=True),  # what certainly failed is in no life of a topic
    "duplicate": Policy(_judge_duplicate, by_own_deletion=True, by_deletion=True, by_configuration=True),
    "false-ack": Policy(_judge_false_ack, by_own_deletion=True, by_deletion=True, by_configuration=True, dated=True),
}
