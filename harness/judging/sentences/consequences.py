"""What anomalies come to for those who use the broker, in a few words: a count, and what happened so often.

The line of a verdict is made of the gravest ones; what the configuration allows is one of them with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkers.core.results import CheckResults, Finding
from harness.judging.policies.marks import SHORT_WORDS
from harness.judging.sentences.wording import Wording
from harness.judging.verdict import SeenAnomaly

LOST = ("lost-write", "lost-tail")
LATE = ("watermark-behind-ack", "watermark-frozen", "not-linearizable")
# from the gravest to the mildest; one, then several; or what needs no count
CONSEQUENCES: dict[str, tuple[str, str] | str] = {
    "lost-write": ("acknowledged message lost", "acknowledged messages lost"),
    "lost-tail": ("acknowledged message lost", "acknowledged messages lost"),
    "false-ack": ("send acknowledged falsely", "sends acknowledged falsely"),
    "corrupt": ("record damaged", "records damaged"),
    "split-brain": "two leaders at once",
    "shared-offset": ("offset assigned twice", "offsets assigned twice"),
    "inconsistent-offset": ("offset with two values", "offsets with two values"),
    "misrouted": ("record in the wrong partition", "records in the wrong partition"),
    "torn": ("transaction torn", "transactions torn"),
    "wrong-outcome": ("transaction with the wrong outcome", "transactions with the wrong outcome"),
    "zombie-write": ("write by a fenced producer", "writes by fenced producers"),
    "replica-divergence": ("offset that differs between replicas", "offsets that differ between replicas"),
    "retry-duplicate": ("retried batch appended twice", "retried batches appended twice"),
    "retry-offset-changed": ("retry acknowledged at another offset", "retries acknowledged at another offset"),
    "unseen": ("acknowledged message unreadable", "acknowledged messages unreadable"),
    "aborted-read": ("aborted message read", "aborted messages read"),
    "phantom": ("message read that nobody sent", "messages read that nobody sent"),
    "duplicate": ("message stored twice", "messages stored twice"),
    "offsets-not-atomic": ("input and output not committed together", "inputs and outputs not committed together"),
    "committed-offset-vanished": ("committed offset forgotten", "committed offsets forgotten"),
    "committed-offset-regression": ("committed offset went back", "committed offsets went back"),
    "committed-beyond-read": ("offset committed before it was read", "offsets committed before they were read"),
    "double-ownership": ("partition owned twice", "partitions owned twice"),
    "rebalance-loss": "records skipped in a rebalance",
    "poll-skip": ("record skipped by a consumer", "records skipped by consumers"),
    "int-poll-skip": ("record missing inside a poll", "records missing inside polls"),
    "nonmonotonic-poll": "consumers went back",
    "int-nonmonotonic-poll": ("poll out of order", "polls out of order"),
    "gap": ("unexplained gap in the offsets", "unexplained gaps in the offsets"),
    "retry-reorder": ("retried batch out of order", "retried batches out of order"),
    "realtime-order": ("message stored out of order", "messages stored out of order"),
    "nonmonotonic-send": ("message stored out of order", "messages stored out of order"),
    "int-nonmonotonic-send": ("message stored out of order", "messages stored out of order"),
    "precommitted-read": ("uncommitted message read", "uncommitted messages read"),
    "not-linearizable": ("operation not linearizable", "operations not linearizable"),
    "watermark-frozen": ("watermark frozen", "watermarks frozen"),
    "watermark-ahead": ("watermark too high", "watermarks too high"),
    "watermark-behind-ack": ("watermark behind acknowledgements", "watermarks behind acknowledgements"),
    "watermark-regression": ("watermark went back", "watermarks went back"),
    "retry-watermark-regression": ("watermark went back after a retry", "watermarks went back after retries"),
    "end-offset-regression": ("end offset went back", "end offsets went back"),
    "lso-regression": ("last stable offset went back", "last stable offsets went back"),
    "lso-above-hw": ("last stable offset above the watermark", "last stable offsets above the watermark"),
    "lso-stuck": ("last stable offset stuck", "last stable offsets stuck"),
    "log-start-regression": ("log start went back", "log starts went back"),
    "not-leader-loop": "clients bounced between brokers",
    "leaderless": ("partition without a leader", "partitions without a leader"),
    "impostor-leader": "a node answered as leader and was not",
    "metadata-disagreement": "nodes disagreed about leaders",
    "metadata-incomplete": "Metadata left out brokers",
    "epoch-regression": "leader epochs went back",
    "coordinator-mismatch": "nodes disagreed about a coordinator",
    "no-progress-in-fault": ("partition refused sends for too long", "partitions refused sends for too long"),
    "slow-recovery": ("partition recovered too slowly", "partitions recovered too slowly"),
    "stall": ("consumer stalled", "consumers stalled"),
}
CYCLES = ("transaction cycle", "transaction cycles")
RANKS = {name: rank for rank, name in enumerate(CONSEQUENCES)}


def broken_promises(seen: Sequence[SeenAnomaly], results: CheckResults) -> list[str]:
    """What an invalid run comes to, the gravest first; with how many sends were never acknowledged."""
    found = {each.anomaly: each.found for each in seen if each.mark.status == "illegal"}
    ordered = sorted(found, key=_rank)
    told = list(dict.fromkeys(_counted(name, found, results) for name in ordered))
    if results.figures.info:
        grave = any(_rank(name) < RANKS["unseen"] for name in found)
        sends = f"{results.figures.info:,} of {results.figures.sent:,} sends never acknowledged"
        told.insert(1 if grave else 0, sends)
    return told


def allowed(seen: Sequence[SeenAnomaly]) -> str:
    """What was seen and is allowed, the gravest of it with its reason; nothing if there is nothing."""
    permitted = [each for each in seen if each.mark.status == "allowed"]
    if not permitted:
        return ""
    gravest = min(permitted, key=lambda each: _rank(each.anomaly))
    others = {_kind(each) for each in permitted} - {_kind(gravest)}
    more = f" (and {Wording.count(len(others), 'other kind')})" if others else ""
    return f"{_short(gravest)}: {_consequence(gravest, permitted)}{more}"


def _kind(seen: SeenAnomaly) -> str:
    """Anomalies that come to the same."""
    if seen.anomaly in LATE:
        return LATE[0]
    told = CONSEQUENCES.get(seen.anomaly, CYCLES)
    return told if isinstance(told, str) else told[0]


def _consequence(gravest: SeenAnomaly, permitted: Sequence[SeenAnomaly]) -> str:
    """How often, or for how long."""
    if gravest.anomaly in LATE:
        return _late([each for each in permitted if each.anomaly in LATE])
    if gravest.anomaly == "stall":
        longest = max((_lasted(each) for each in _findings(gravest)), default=0)
        return f"a consumer waited up to {Wording.lasted(longest)} for records that were there"
    return _counted(gravest.anomaly, {each.anomaly: each.found for each in permitted}, None)


def _late(seen: Sequence[SeenAnomaly]) -> str:
    """How many acknowledged messages were visible late, and by how much; marks know it, operations do not."""
    marks = [finding for each in seen for finding in _findings(each) if "proofs" in finding.facts]
    count = sum(int(each.facts["proofs"]) for each in marks) or sum(each.found for each in seen)
    lags = [int(each.facts["y_at"]) - int(each.facts["x_at"]) for each in marks if {"x_at", "y_at"} <= set(each.facts)]
    late = f" for up to {Wording.lasted(max(lags))}" if lags else ""
    verb = "was" if count == 1 else "were"
    return f"{Wording.count(count, 'acknowledged message')} {verb} not yet visible{late}"


def _counted(name: str, found: Mapping[str, int], results: CheckResults | None) -> str:
    """The count, and what happened so often; of lost messages also of how many."""
    count = sum(found.get(each, 0) for each in LOST) if name in LOST else found[name]
    told = CONSEQUENCES.get(name, CYCLES)
    if isinstance(told, str):
        return told
    one, many = told
    whole = results.figures.acknowledged if results else 0
    if name in {*LOST, "unseen"} and whole > count:
        return f"{count:,} of {whole:,} {many}"
    return f"{count:,} {one if count == 1 else many}"


def _findings(seen: SeenAnomaly) -> list[Finding]:
    return [each.finding for each in seen.findings]


def _lasted(finding: Finding) -> int:
    return int(finding.facts.get("lasted_ns", 0))


def _rank(name: str) -> int:
    return RANKS.get(name, RANKS["precommitted-read"])  # cycles of transactions


def _short(seen: SeenAnomaly) -> str:
    """Why it is allowed, in a few words."""
    mark = seen.mark
    return SHORT_WORDS[mark.code].format(**dict(mark.about)) if mark.code in SHORT_WORDS else mark.why
