"""Sentences about findings: every anomaly has words of its own, made of what kernels bring and of nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from checkers.core.families import FAMILIES
from checkers.core.results import Anomaly, CheckResults, Finding
from harness.history.schema import ID_BITS
from harness.judging.sentences import SENTENCES, add_sentences, sentence
from harness.judging.sentences.transactions import cycle
from harness.judging.sentences.wording import Wording
from tests.oracle import compacted, oracles
from tests.support.histories import Rows
from tests.support.kernels import check_rows, findings_of

SECOND = 1_000_000_000
HISTORIES = 600  # made up, a few of each family
ANOMALIES = {name for family in FAMILIES for name in family.anomalies}
FIRST_NS = 5 * SECOND
SAY = Wording(FIRST_NS)


def at(seconds: float) -> int:
    """So long after the history began."""
    return FIRST_NS + round(seconds * SECOND)


def message(process: int, number: int) -> int:
    """A value."""
    return (process << ID_BITS) + number


def finding(anomaly: str, *tags: str, **facts: Any) -> Finding:
    """One at offset 7 of a topic, from 2 to 4 seconds."""
    return Finding(anomaly, "t", 0, 7, (), (), (), at(2), at(4), (), tags, facts=facts)


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    """What kernels find in histories that somebody made up."""
    random, rows, turns = Random(1), Rows(), oracles()
    for topic in range(HISTORIES):
        rows.topics[topic] = f"t{topic}"
        turns[topic * len(turns) // HISTORIES].write(rows, topic, random)
    outcomes, failures = check_rows(rows, FAMILIES, compact=[topic for topic in rows.topics if compacted(rows, topic)])
    assert not failures
    return findings_of(rows, outcomes)


def test_every_anomaly_has_a_sentence_of_its_own() -> None:
    """And nothing else has. Cycles are told edge by edge, whatever they are called."""
    assert set(SENTENCES) == ANOMALIES
    makers = [make for make in SENTENCES.values() if make is not cycle]
    assert len(set(makers)) == len(makers)
    assert {name for name, make in SENTENCES.items() if make is cycle} == {name for name in ANOMALIES if name[0] == "G"}


def test_what_kernels_find_can_be_said(found: list[Finding]) -> None:
    """Nearly all anomalies with nearly all their tags: whatever is not known is left out, and never told as `None`."""
    assert len(ANOMALIES - {each.anomaly for each in found}) < 5
    for each in found:
        for say in (SAY, Wording(foreign=True)):
            words = sentence(each, say)
            assert words, each
            assert not re.search(r"\bNone\b|\bnan\b|[{}\[\]\n]|  ", words), words


def test_words_are_the_same_when_results_come_back_from_a_file(found: list[Finding]) -> None:
    """Facts are plain: what JSON makes of them is what they were."""
    anomalies = {name: Anomaly(name, "", findings=[each for each in found if each.anomaly == name][:20])
                 for name in ANOMALIES}  # fmt: skip
    kept = CheckResults(first_ns=FIRST_NS, anomalies=anomalies)
    add_sentences(kept)
    back = CheckResults.from_json(json.loads(json.dumps(kept.as_json())))
    assert back == kept
    for anomaly in back.anomalies.values():
        assert [sentence(each, SAY) for each in anomaly.findings] == [each.detail for each in anomaly.findings]


def test_of_values_that_are_not_ours_nobody_says_who_sent_them(found: list[Finding]) -> None:
    """The upper bits of an imported value say nothing."""
    theirs = Wording(FIRST_NS, foreign=True)
    assert any("producer " in sentence(each, SAY) for each in found)
    assert not [each for each in found if re.search(r"producer \d+ #|of process ", sentence(each, theirs))]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (finding("lost-write", acknowledged=17, reached=40),
         "acknowledged at offset 17; readers got to offset 40 without it"),
        (finding("lost-write", "no offset", final_end=9),
         "acknowledged without an offset; the final read ended at offset 9 without it"),
        (finding("lost-write", "last of its key", key=3, written=17, found=12, final_end=40),
         ("the last write of key 3 was acknowledged at offset 17; the final read ended at offset 40 and found nothing"
         " newer than offset 12 of that key")),
        (finding("lost-tail", acknowledged=17), "acknowledged at offset 17; the final read ended without it"),
        (finding("unseen", acknowledged=17, known_end=20, standing_process=[5], standing_offset=[12],
                 standing_since_ns=[at(40)]),
         "acknowledged at offset 17, and the partition ends at 20; process 5 has been at offset 12 since 40.000 s"),
        (finding("unseen", acknowledged=17, known_end=20),
         "acknowledged at offset 17, and the partition ends at 20; no reader got any record of it"),
        (finding("phantom", producer=3), "process 3 should have sent it but never did"),
        (finding("phantom", "foreign"), "the record at offset 7 was not written by this run"),
        (finding("false-ack", acknowledged=4, log_start=5, shown_ns=at(1.5)),
         "acknowledged at offset 4, below log start 5, which a node had already shown at 1.500 s, before it was sent"),
        (finding("realtime-order", x_value=message(3, 9), y_value=message(4, 1), by_ns=2_400_000),
         ("producer 3 #9 was acknowledged 2 ms before producer 4 #1 began, which got a lower"
         " offset")),
        (finding("not-linearizable", "end", x_node=1, y_value=message(4, 1), by_ns=5_900_000_000),
         "end() by node 1 was over 5.9 s before producer 4 #1 began, which comes before it in the log"),
        (finding("watermark-behind-ack", proofs=1, offset=297, x_at=at(14.99), y_at=at(16.115)),
         "offset 297 was acknowledged at 14.990 s; a node still showed less when asked at 16.115 s (1 offset like it)"),
        (finding("watermark-frozen", proofs=1351, mark=300, offset=302, x_at=at(15), y_at=at(29), y_node=3),
         "node 3 showed 300 until 29.000 s, although offset 302 was acknowledged at 15.000 s (1,351 offsets like it)"),
        (finding("watermark-regression", shown_before=20, before_node=2, before_ns=at(4), before_epoch=3, shown=11,
                 node=2, at_ns=at(8), epoch=3, answers=2),
         ("node 2 showed high watermark 20 at 4.000 s (leader epoch 3), then 11 at 8.000 s (leader epoch 3); 2 answers"
         " fell back like that")),
        (finding("lso-above-hw", shown_before=20, before_ns=at(4), shown=11, node=1, at_ns=at(8), answers=1),
         ("an unknown node showed last stable offset 20 at 4.000 s (leader epoch unknown), then node 1 showed high"
         " watermark 11 at 8.000 s (leader epoch unknown)")),
        (replace(finding("not-leader-loop", client="c", refusals=5, api=1, first_ns=at(1), last_ns=at(3), given_up=1),
                 nodes=(1, 2)),
         ("nodes 1 and 2 refused 5 Fetch requests of client c in a row, from 1.000 s to 3.000 s, also after it had"
         " refreshed its metadata; 1 send failed meanwhile")),
        (replace(finding("split-brain", epoch=3, appends=[4, 1], began_ns=[at(1), at(2)], ended_ns=[at(2), at(3)]),
                 nodes=(1, 2)),
         ("in epoch 3, node 1 acknowledged 4 appends (1.000 s to 2.000 s) and node 2 acknowledged 1 append (2.000 s to"
         " 3.000 s)")),
        (finding("double-ownership", group="g", member=message(5, 7), generation=3, member_before=message(6, 4),
                 overlap_ns=2 * SECOND),
         ("group g assigned it to member 7 of process 5 (generation 3) 2.0 s before member 4 of process 6 (generation"
         " unknown) let go")),
        (finding("G1c", "wr", kinds=["wr", "realtime"], sources=[1, 2], destinations=[2, 1], topics=["t", None],
                 partitions=[0, None], offsets=[9, None], operations=[message(5, 1), message(6, 2)]),
         ("T1 wrote t-0@9 and T2 read it; T2 ended before T1 began; T1 is transaction 1 of process 5, T2 is transaction"
         " 2 of process 6")),
        (finding("no-progress-in-fault", "no fault", lasted_ns=SECOND * 23, span_ns=SECOND * 23),
         "no send got through for 23.0 s, from 2.000 s on; no fault was active"),
    ],
)  # fmt: skip
def test_words(one: Finding, said: str) -> None:
    """As people read them."""
    assert sentence(one, SAY) == said


@pytest.mark.parametrize(
    ("time_ns", "said"),
    [
        (0, "0 µs"),
        (5_400, "5 µs"),
        (159_455_813, "159 ms"),
        (59 * SECOND, "59.0 s"),
        (3_600 * SECOND, "60 min"),
    ],
)
def test_how_long_it_took_is_said_in_the_unit_that_suits_it(time_ns: int, said: str) -> None:
    """Without digits that nobody reads."""
    assert SAY.lasted(time_ns) == said


def test_how_things_are_called() -> None:
    """Moments since the history began, messages by who sent them, nodes by their numbers."""
    assert (SAY.at(at(1.2345)), SAY.at(None)) == ("1.234 s", "an unknown time")
    assert (SAY.value(message(6, 28)), Wording(foreign=True).value(28)) == ("producer 6 #28", "value 28")
    assert [SAY.nodes(nodes) for nodes in ((), (1,), (1, 3), (1, 2, 3))] == [
        "an unknown node", "node 1", "nodes 1 and 3", "nodes 1, 2 and 3"
    ]  # fmt: skip
    assert [SAY.count(number, "batch", "batches") for number in (0, 1, 1_000)] == [
        "0 batches",
        "1 batch",
        "1,000 batches",
    ]


def test_an_anomaly_without_words_is_told_by_its_facts() -> None:
    """One that somebody just wrote a kernel for."""
    assert sentence(finding("new", first_ns=3, node=1), SAY) == "first ns: 3, node: 1"


def test_every_finding_is_told() -> None:
    """With its sentence, and nothing else is changed."""
    one = finding("lost-tail", acknowledged=1)
    results = CheckResults(first_ns=FIRST_NS, anomalies={"lost-tail": Anomaly("lost-tail", "", 5, 2, [one, one])})
    add_sentences(results)
    assert results.anomalies["lost-tail"].findings == [replace(one, detail=sentence(one, SAY))] * 2
    assert (results.anomalies["lost-tail"].found, results.anomalies["lost-tail"].looked_at) == (2, 5)
