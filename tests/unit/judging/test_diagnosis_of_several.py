"""Several bugs at once: what one cause accounts for is no other's proof, and what it cannot account for is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checkers.core.results import Finding
from checkers.summaries.figures import Figures, PartitionRow
from harness.judging.diagnosis import Cause
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


def told(*found: Finding, **known: Any) -> dict[str, Cause]:
    """The causes, by name."""
    return {each.name: each for each in diagnosis(results(*found, **known)).causes}


def test_a_resend_that_nobody_was_handed_twice_may_only_be_answered_wrongly() -> None:
    """That it was appended twice is not said then."""
    for tag, done in (("read twice", "appended twice"), ("acknowledged twice", "acknowledged at two offsets")):
        cause = told(finding("retry-duplicate", tag), finding("retry-offset-changed"))["resend-not-recognised"]
        assert cause.sentence.endswith(done)
        assert bool(cause.against) == (tag == "acknowledged twice")


def test_epochs_that_go_back_are_no_disagreement_of_nodes() -> None:
    """One node alone can do that."""
    back = finding("epoch-regression", nodes=(2,))
    assert told(back)["leaders-disputed"].sentence.startswith("leader epochs go back for p0")
    assert told(back, DISPUTE)["leaders-disputed"].sentence.startswith("nodes do not agree who leads p0")


def test_a_partition_that_is_served_to_others_is_not_served_by_no_node() -> None:
    """Clients that go in circles are told as what they are."""
    idle = replace(READ_TWICE, sent=9, acknowledged=0, read=0, distinct=0)
    for row, said in ((READ_TWICE, "clients bounce between brokers for p0; "), (idle, "no node serves p0: ")):
        cause = told(LOOP, figures=Figures(900, 900, table=[row]))["leader-refuses"]
        assert cause.sentence.startswith(said)


def test_a_fetch_that_hangs_says_nothing_of_other_partitions() -> None:
    """What the final read did not get to there may have another reason."""
    hung, unseen = finding("stall", "class 2"), finding("unseen", partition=1)
    cause = told(hung, unseen)["fetch-hangs"]
    assert cause.sentence == (
        "data available, fetch does not answer: p0 from offset 5 on; the final read did not get to all of p1 either"
    )


def test_reads_of_what_failed_elsewhere_prove_no_mark_that_is_too_high() -> None:
    """They are a cause of their own."""
    ahead = finding("watermark-ahead", "missing", facts={"x_at": 1, "y_at": 9})
    for partition, confidence in ((0, "certain"), (1, "likely")):
        causes = told(ahead, finding("aborted-read", partition=partition))
        assert causes["shown-before-replicated"].confidence == confidence
        assert ("aborted-shown" in causes) == bool(partition)


def test_marks_that_fall_without_resends_are_not_certain_to_fall_because_of_them() -> None:
    """A node that answers from an old state does so after resends as well."""
    resent = finding("retry-watermark-regression", time_ns=1_000, until_ns=2_000)
    for time_ns, confidence in ((1_500, "certain"), (60_000_000_000, "likely")):
        fell = finding("watermark-regression", "one epoch", "same node", time_ns=time_ns, until_ns=time_ns + 10)
        found = results(resent, fell)
        found.anomalies["retry-watermark-regression"].looked_at = 1
        (cause,) = diagnosis(found).causes
        assert (cause.name, cause.confidence) == ("watermark-not-idempotent", confidence)


def test_a_client_that_got_to_the_broker_that_is_left_out_does_not_go_in_circles_because_of_it() -> None:
    """That broker refuses; the short list is told by itself, and not as certain to matter."""
    short = finding("metadata-incomplete", "broker", "always", topic=None, nodes=(1, 2))
    causes = told(short, replace(LOOP, nodes=(2,)))
    assert causes["clients-cannot-find-leaders"].confidence == "likely"
    assert causes["leader-refuses"].confidence == "certain"
    assert set(told(short, LOOP)) == {"clients-cannot-find-leaders"}


def test_what_lies_above_all_that_was_read_may_be_hidden() -> None:
    """Where nodes showed ends that are too low; nowhere else."""
    tail = finding("lost-tail")
    for partition, confidence in ((0, "likely"), (1, "certain")):
        cause = told(tail, finding("end-offset-regression", partition=partition))["acknowledged-then-lost"]
        assert cause.confidence == confidence
    assert told(tail)["acknowledged-then-lost"].confidence == "certain"


def test_rotten_records_account_for_nothing_in_other_partitions() -> None:
    """What is lost there is told by itself."""
    assert set(told(finding("corrupt"), finding("lost-write", partition=1))) == {"corrupted", "acknowledged-then-lost"}


def test_of_several_partitions_without_a_leader_the_longest_time_is_said_as_such() -> None:
    """It is not that of all."""
    shorter = finding("leaderless", partition=1, until_ns=2_000_000_000)
    assert told(finding("leaderless"), shorter)["no-leader"].sentence == "p0 and p1 had no leader for up to 9.0 s"


def test_where_several_brokers_have_one_id_nobody_is_certainly_no_leader() -> None:
    """Metadata may mean the very node that answers, or that is not asked."""
    impostor = finding("impostor-leader", nodes=(2,), facts={"answers": 9, "leader": 1, "epoch": 0})
    refuses = replace(LOOP, partition=1, nodes=(1,))
    for shared, confidence in (([1], "likely"), ([], "certain")):
        causes = diagnosis(results(impostor, refuses), facts={"shared_ids": shared}).causes
        assert {each.name: each.confidence for each in causes} == {
            "answers-as-leader": confidence,
            "leader-refuses": confidence,
        }
        assert all(("several brokers go by the id 1" in " ".join(each.against)) == bool(shared) for each in causes)
