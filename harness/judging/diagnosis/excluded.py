"""The usual suspects: what is asked of every run, whatever was found, so that it can be said to be out of it.

watermark lag        watermark-behind-ack and watermark-frozen: marks against acknowledgements
time-outs            operations that ended with one. Sends that were given up while they were refused again and again
                     (not-leader-loop) waited for no answer: they are not counted
partition imbalance  a stall of class 3
fetch hang           a stall of class 2, or what the final read did not get to, unless a mark that stands still or a
                     leader that refuses accounts for it
misleading metadata  metadata-incomplete, metadata-disagreement, not-leader-loop
lost messages        lost-write, lost-tail. Not excluded unless every acknowledged message was read back: what lies
                     where nobody could read may be lost as well
offsets assigned twice
                     shared-offset: by acknowledgements alone

`none` is measured and not there, `allowed` is there and permitted, `seen` is there; `not measured` says why, and `not
excluded` how much was not seen. One that was measured and is not there, in a run that has a cause, is excluded as the
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.judging.diagnosis.cause import Measured, MeasurementOutcome, counted
from harness.judging.diagnosis.evidence import Evidence, total
from harness.judging.diagnosis.watermarks import lag_s

TIMED_OUT = ("TIMED_OUT", "Timeout")


def measured(evidence: Evidence) -> tuple[Measured, ...]:
    """All of them, in the order in which they are told. The evidence is whole: nothing is accounted for yet."""
    return tuple(each(evidence) for each in _SUSPECTS)


def _watermark_lag(evidence: Evidence) -> Measured:
    names = ("watermark-behind-ack", "watermark-frozen")
    looked_at = evidence.looked_at(names[0])
    if not looked_at:
        return Measured("watermark lag", "not measured", f"not measured: {evidence.why_not(names[0])}")
    wrong, seen = evidence.wrong(*names), evidence.seen(*names)
    if not seen:
        return Measured("watermark lag", "none", f"measured, none ({looked_at:,} acknowledgements compared)")
    longest = f"up to {lag_s(wrong or seen):.1f} s, in {evidence.places(wrong or seen)}"
    return Measured(
        "watermark lag", "seen" if wrong else "allowed", f"measured, {longest}{'' if wrong else ', which is allowed'}"
    )


def _time_outs(evidence: Evidence) -> Measured:
    rows = [row for row in evidence.results.coverage.errors if any(word in row["name"] for word in TIMED_OUT)]
    count = sum(int(row["count"]) for row in rows)
    tried = sum(sum(ends.values()) for ends in evidence.results.coverage.operations.values())
    if not tried:
        return Measured("time-outs", "not measured", "not measured: there were no operations")
    if not count:
        return Measured("time-outs", "none", f"measured, none in {counted(tried, 'operation')}")
    refused = total(evidence.wrong("not-leader-loop"), "given_up")
    if refused >= count and all(row["f"] == "send" for row in rows):
        sentence = f"no answer was waited for: the {count:,} sends that timed out got errors all the time"
        return Measured("time-outs", "none", sentence)
    names = ", ".join(dict.fromkeys(f"{row['f']}: {row['name']}" for row in rows[:3]))
    return Measured("time-outs", "seen", f"{counted(count, 'operation')} timed out ({names})")


def _partition_imbalance(evidence: Evidence) -> Measured:
    return _of_stalls(evidence, "partition imbalance", "class 3", "no partition fell behind others of its reader")


def _fetch_hang(evidence: Evidence) -> Measured:
    held = evidence.beside(evidence.wrong("watermark-frozen", "not-leader-loop", "impostor-leader"), "unseen")
    unseen = [each for each in evidence.seen("unseen") if each not in held]
    if unseen:
        wrong = bool(evidence.wrong("unseen"))
        told = f"{counted(evidence.found('unseen'), 'acknowledged message')} that no reader reached"
        return Measured("fetch hang", "seen" if wrong else "allowed", told)
    return _of_stalls(evidence, "fetch hang", "class 2", "no Fetch went unanswered while data was there")


def _of_stalls(evidence: Evidence, name: str, class_: str, none: str) -> Measured:
    looked_at = evidence.looked_at("stall")
    if not looked_at:
        return Measured(name, "not measured", f"not measured: {evidence.why_not('stall')}")
    seen, wrong = evidence.seen("stall", tag=class_), evidence.wrong("stall", tag=class_)
    if not seen:
        return Measured(name, "none", f"measured, none: {none}")
    outcome: MeasurementOutcome = "seen" if wrong else "allowed"
    return Measured(
        name, outcome, f"measured, in {evidence.places(wrong or seen)}{'' if wrong else ', which is allowed'}"
    )


def _of(name: str, unit: str, *anomalies: str) -> Callable[[Evidence], Measured]:
    """A suspect that is there if one of these anomalies is."""

    def suspect(evidence: Evidence) -> Measured:
        looked_at = [evidence.looked_at(anomaly) for anomaly in anomalies]
        found = [anomaly for anomaly in anomalies if evidence.found(anomaly)]
        if found:
            wrong = bool(evidence.wrong(*anomalies))
            told = ", ".join(f"{anomaly} ×{evidence.found(anomaly):,}" for anomaly in found)
            return Measured(name, "seen" if wrong else "allowed", told + ("" if wrong else ", which is allowed"))
        if not looked_at[0]:
            return Measured(name, "not measured", f"not measured: {evidence.why_not(anomalies[0])}")
        return Measured(name, "none", f"measured, none ({looked_at[0]:,} {unit})")

    return suspect


def _lost_messages(evidence: Evidence) -> Measured:
    """Only what was read back is certainly there."""
    name, figures = "lost messages", evidence.results.figures
    told = _of(name, "acknowledgements", "lost-write", "lost-tail")(evidence)
    unread = max(sum(row.missing for row in figures.table), evidence.found("unseen"))
    if told.outcome != "none" or not unread:
        return told
    said = f"{unread:,} of {counted(figures.acknowledged, 'acknowledged message')} could not be read"
    return Measured(name, "not excluded", f"measured, none seen, but {said}")


def excluded(told: tuple[Measured, ...]) -> Iterator[Measured]:
    """Those that were measured and are not there."""
    return (each for each in told if each.outcome == "none")


_SUSPECTS: tuple[Callable[[Evidence], Measured], ...] = (
    _watermark_lag,
    _time_outs,
    _partition_imbalance,
    _fetch_hang,
    _of(
        "misleading metadata",
        "claims of leaders compared",
        "metadata-incomplete",
        "metadata-disagreement",
        "not-leader-loop",
    ),
    _lost_messages,
    _of("offsets assigned twice", "acknowledgements", "shared-offset"),
)
