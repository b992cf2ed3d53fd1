"""Several bugs at once: what one cause accounts for is no other's proof, and what it cannot account for is."""

from __future__ import annotations

from dataclasses import replace

from checkers.core.results import Finding
from checkers.summaries.figures import Figures, PartitionRow
from tests.unit.judging.test_diagnosis import LOOP, diagnosis, finding, results

DISPUTE = finding(
    "metadata-disagreement", "one epoch", offset=None, nodes=(1, 2),
    facts={"node": 1, "leader": 1, "node_before": 2, "leader_before": 3, "epoch": 0},
)  # fmt: skip
READ_TWICE = PartitionRow("t", 0, 900, 900, 0, 0, 898, 898, 1.0, 0, 899, 0, read_finally=898, missing=2)


def names(*found: Finding, counts: dict[str, int] | None = None, figures: Figures | None = None) -> list[str]:
    """The causes that are told, in their order."""
    known = {} if figures is None else {"figures": figures}
    return [each.name for each in diagnosis(results(*found, counts=counts, **known)).causes]


def test_a_leader_refuses_where_all_whom_anybody_names_refuse() -> None:
    """Whoever is right about who leads: the dispute explains no loop then."""
    impostor = finding("impostor-leader", nodes=(1,), facts={"answers": 9, "leader": 3, "epoch": 0})
    both = replace(LOOP, nodes=(1, 3))
    assert set(names(impostor, DISPUTE, both)) == {"leader-refuses", "answers-as-leader"}
    assert "leaders-disputed" in names(DISPUTE, replace(LOOP, nodes=(3,)))
    in_turn = [replace(LOOP, nodes=(node,), processes=(node,)) for node in (1, 3)]
    assert "leader-refuses" in names(DISPUTE, *in_turn)
    reader = replace(in_turn[0], facts={**LOOP.facts, "api": 1})  # who refuses a Fetch need not refuse a Produce
    assert diagnosis(results(DISPUTE, replace(reader, nodes=(2,)), in_turn[1])).causes[-1].name == "leaders-disputed"


def test_a_final_read_that_an_impostor_answered_says_nothing_of_marks() -> None:
    """It found less than the leader had shown; one that began after the impostor was gone is another cause."""
    facts = {"answers": 9, "leader": 3, "epoch": 0, "began_ns": 100, "ended_ns": 900}
    impostor = finding("impostor-leader", nodes=(1,), facts=facts)
    for began_ns, told in ((500, ["answers-as-leader"]), (901, ["answers-as-leader", "shown-before-replicated"])):
        ahead = finding("watermark-ahead", "missing", nodes=(3,), facts={"x_at": 50, "y_at": began_ns})
        assert names(impostor, ahead) == told
    later = finding("watermark-ahead", "later append", nodes=(3,), facts={"x_at": 50, "y_at": 500})
    assert names(impostor, later) == ["answers-as-leader", "shown-before-replicated"]


def test_readers_that_pass_over_more_than_is_lost_are_not_given_some_records() -> None:
    """What nobody was given may have been passed over by all; that is said against it."""
    skip, lost = finding("int-poll-skip", offset=6), finding("lost-write", offset=41)
    counts = {"int-poll-skip": 108, "lost-write": 2}
    figures = Figures(900, 900, table=[READ_TWICE])
    (told,) = diagnosis(results(skip, lost, counts=counts, figures=figures)).causes
    assert (told.name, told.confidence) == ("skipped-by-readers", "likely")
    assert told.explains == ("int-poll-skip", "lost-write")
    assert told.against == ("no reader received some messages: all skipped them, or they are lost",)
    assert names(skip, lost, counts=counts | {"lost-write": 60}, figures=figures) == ["acknowledged-then-lost"]
    assert names(skip, lost, counts=counts) == ["acknowledged-then-lost"]  # nobody knows how many readers there were


def test_damaged_records_are_not_what_readers_passed_over() -> None:
    """Of 264 lost messages 262 came back damaged."""
    damaged = [finding("corrupt", offset=10, values=(10,)), finding("lost-write", offset=10, values=(10,))]
    counts = {"int-poll-skip": 108, "lost-write": 264, "corrupt": 262}
    figures = Figures(900, 900, table=[READ_TWICE])
    skip = finding("int-poll-skip", offset=6)
    assert names(skip, *damaged, counts=counts, figures=figures) == ["corrupted", "skipped-by-readers"]


def test_what_is_lost_beside_damaged_records_is_certain_and_counted_apart() -> None:
    """Also where no finding of it was kept; where it is allowed it is no cause."""
    damaged = [finding("corrupt", offset=10, values=(10,)), finding("lost-write", offset=10, values=(10,))]
    for more in ([], [finding("lost-write", offset=41, values=(41,))]):
        told = diagnosis(results(*damaged, *more, counts={"lost-write": 352, "corrupt": 300})).causes
        assert [each.name for each in told] == ["corrupted", "acknowledged-then-lost"]
        assert told[1].confidence == "certain"
        assert told[1].sentence.startswith("acknowledged messages are lost: at least 52 of 200")
        assert "300 records came back damaged, which is fewer" in told[1].because
    assert names(*damaged, counts={"lost-write": 300, "corrupt": 300}) == ["corrupted"]


def test_a_client_counts_on_from_no_offset_as_far_as_its_batches_go() -> None:
    """Not every batch gets as far, and not all findings are kept; what is shared elsewhere is given twice."""
    none = finding("false-ack", "no offset", offset=-1)
    shared = [finding("shared-offset", offset=offset, facts={"count": 9 - offset}) for offset in (0, 1, 2, 3, 5, 6)]
    assert names(none, *shared) == ["acknowledged-without-offset"]
    assert names(none, *shared, counts={"shared-offset": 7}) == ["acknowledged-without-offset"]
    twice = [replace(each, facts={"count": 2}) for each in shared]
    oftener = replace(shared[0], offset=40, facts={"count": 2})
    assert "offsets-assigned-twice" in names(none, *twice[1:])
    assert "offsets-assigned-twice" in names(none, *shared, oftener)
    assert names(*shared) == ["offsets-assigned-twice"]


def test_what_was_acknowledged_without_an_offset_may_lie_above_a_frozen_mark() -> None:
    """Nobody knows where it is, and nothing above the mark is read; what has an offset below it is lost."""
    none = finding("false-ack", "no offset", offset=-1)
    frozen = finding("watermark-frozen", "one epoch", offset=300, facts={"mark": 300, "proofs": 351})
    unread = finding("lost-write", "no offset", offset=-1)
    shared = [finding("shared-offset", offset=offset, facts={"count": 9}) for offset in (0, 1)]
    made_up = finding("lost-write", offset=1)
    told = diagnosis(results(none, frozen, unread, *shared, made_up)).causes
    assert [each.name for each in told] == ["acknowledged-without-offset", "watermark-frozen"]
    assert (
        "messages that were acknowledged without a usable offset, and nobody read, may lie above it" in told[1].because
    )
    below = finding("lost-write", offset=77)
    assert "acknowledged-then-lost" in names(none, frozen, unread, *shared, below)
    assert "acknowledged-then-lost" in names(none, replace(frozen, partition=1), unread)
