"""Sentences about findings, made from their facts: the only place where the words are.

One function per anomaly, named like it. Each says in one sentence what proves the finding; where it was, when, and
which values are involved stand beside it wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkers.core.results import CheckResults, Finding
from harness.history.schema import ID_BITS

MS = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Say:
    """How facts are named: what a run calls things."""

    first_ns: int = 0  # when its history began
    foreign: bool = False  # the upper bits of a value say nothing

    def at(self, time_ns: int | None) -> str:
        """A moment since the history began."""
        return "an unknown time" if time_ns is None else f"{(time_ns - self.first_ns) / SECOND:.3f} s"

    @staticmethod
    def lasted(time_ns: int) -> str:
        """How long something took, in the unit that suits it."""
        if abs(time_ns) < MS:
            return f"{time_ns / 1000:.0f} µs"
        if abs(time_ns) < SECOND:
            return f"{time_ns / MS:.0f} ms"
        return f"{time_ns / SECOND:.1f} s" if abs(time_ns) < 10 * MINUTE else f"{time_ns / MINUTE:.0f} min"

    def value(self, value: int) -> str:
        """A message: who sent it, and its number among what that process did."""
        return f"value {value}" if self.foreign else f"message {value % (1 << ID_BITS)} of producer {value >> ID_BITS}"

    @staticmethod
    def nodes(nodes: Iterable[int]) -> str:
        """Node 1; nodes 1 and 3."""
        names = [str(node) for node in nodes]
        if len(names) == 1:
            return f"node {names[0]}"
        return f"nodes {', '.join(names[:-1])} and {names[-1]}" if names else "an unknown node"

    @staticmethod
    def count(number: int, one: str, many: str = "") -> str:
        """1 offset, 2 offsets."""
        return f"{number:,} {one if number == 1 else many or f'{one}s'}"

    @staticmethod
    def place(topic: object, partition: int | None) -> str:
        """A partition."""
        return f"{topic}-{partition}"


def tell(results: CheckResults, *, foreign: bool = False) -> None:
    """Give every finding its sentence."""
    say = Say(results.first_ns, foreign)
    for anomaly in results.anomalies.values():
        anomaly.findings = [replace(each, detail=sentence(each, say)) for each in anomaly.findings]


def sentence(finding: Finding, say: Say) -> str:
    """What proves it."""
    make = SENTENCES.get(finding.anomaly)
    return make(finding, say) if make else plain(finding, say)


Sentence = Callable[[Finding, Say], str]


def plain(finding: Finding, say: Say) -> str:
    """Of an anomaly that has no words of its own yet: its facts."""
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in finding.facts.items())


# delivery


def lost_write(finding: Finding, say: Say) -> str:
    """Acknowledged at offset 17; readers got to offset 40 without it."""
    facts = finding.facts
    if "reached" in facts:
        return f"acknowledged at offset {facts['acknowledged']}; readers got to offset {facts['reached']} without it"
    return f"acknowledged without an offset; the final read{_delivery_end(finding)} without it"


def lost_tail(finding: Finding, say: Say) -> str:
    """Acknowledged at offset 17; the final read ended at offset 17 without it."""
    return f"acknowledged at offset {finding.facts['acknowledged']}; the final read{_delivery_end(finding)} without it"


def unseen(finding: Finding, say: Say) -> str:
    """Acknowledged at offset 17, the partition ends at 20; process 5 has been at offset 12 since 40.000 s."""
    facts = finding.facts
    names = ("standing_process", "standing_offset", "standing_since_ns")
    standing = [
        f"process {process} has been at offset {offset} since {say.at(since)}"
        for process, offset, since in zip(*(facts.get(name, ()) for name in names), strict=True)
    ]
    readers = ", ".join(standing) or "no reader got any record of it"
    return f"acknowledged at offset {facts['acknowledged']}, and the partition ends at {facts['known_end']}; {readers}"


def phantom(finding: Finding, say: Say) -> str:
    """Readers got it, but process 3 never sent it."""
    producer = finding.facts.get("producer")
    return "nobody sent it" if producer is None else f"process {producer} should have sent it but never did"


def aborted_read(finding: Finding, say: Say) -> str:
    """Its transaction was aborted, yet it was read."""
    if finding.facts["in_transaction"]:
        return "its transaction was aborted, but a reader got it"
    return "its send failed for certain, but a reader got it"


def duplicate(finding: Finding, say: Say) -> str:
    """It is in the log at offsets 3 and 9."""
    return f"in the log at offset {finding.facts['low']} and again at offset {finding.facts['high']}"


def false_ack(finding: Finding, say: Say) -> str:
    """Acknowledged at offset 4, below log start 5, which a node had shown before the send began."""
    facts = finding.facts
    if "log_start" in facts:
        return (
            f"acknowledged at offset {facts['acknowledged']}, below log start {facts['log_start']}, which a node had"
            f" already shown at {say.at(facts['shown_ns'])}, before it was sent"
        )
    if "count" in facts:
        return f"offset {finding.offset} was acknowledged to {say.count(facts['count'], 'send')}"
    return "acknowledged without a usable offset"


def _delivery_end(finding: Finding) -> str:
    end = finding.facts.get("final_end")
    return " ended" if end is None else f" ended at offset {end}"


# odd


def corrupt(finding: Finding, say: Say) -> str:
    """A checksum that does not hold."""
    return f"the record at offset {finding.offset} fails its checksum"


def misrouted(finding: Finding, say: Say) -> str:
    """A record of another topic or partition."""
    return f"the record at offset {finding.offset} was sent to another topic or partition"


def _foreign_record(finding: Finding, say: Say) -> str:
    """With the tag `foreign`; without it, `checkers.delivery` found it."""
    return f"the record at offset {finding.offset} was not written by this run"


# keys


def _last_write_of_key(finding: Finding, say: Say) -> str:
    """With the tag `last of its key`; without it, `checkers.delivery` found it."""
    facts = finding.facts
    end = facts.get("final_end")
    final = "the final read ended" if end is None else f"the final read ended at offset {end}"
    found = f"nothing newer than offset {facts['found']}" if "found" in facts else "nothing"
    return (
        f"the last write of key {facts['key']} was acknowledged at offset {facts['written']}; {final} and found"
        f" {found} of that key"
    )


# order


def poll_skip(finding: Finding, say: Say) -> str:
    """A poll ended at offset 3 and the next one began at offset 6; it skipped offset 4."""
    facts = finding.facts
    return (
        f"a poll ended at offset {facts['from_offset']} and the next one began at offset {facts['to_offset']};"
        f" it skipped offset {finding.offset}"
    )


def int_poll_skip(finding: Finding, say: Say) -> str:
    """One poll or transaction went from offset 3 to offset 6 and skipped offset 4."""
    facts = finding.facts
    return (
        f"one poll or transaction went from offset {facts['from_offset']} to offset {facts['to_offset']}"
        f" and skipped offset {finding.offset}"
    )


def nonmonotonic_poll(finding: Finding, say: Say) -> str:
    """A poll ended at offset 6 and the next one went back to offset 3."""
    start, end = finding.facts["from_offset"], finding.facts["to_offset"]
    again = "returned it again" if start == end else f"went back to offset {end}"
    return f"a poll ended at offset {start} and the next one {again}"


def int_nonmonotonic_poll(finding: Finding, say: Say) -> str:
    """One poll or transaction went back from offset 6 to offset 3."""
    start, end = finding.facts["from_offset"], finding.facts["to_offset"]
    again = f"returned offset {end} twice" if start == end else f"went back from offset {start} to offset {end}"
    return f"one poll or transaction {again}"


def gap(finding: Finding, say: Say) -> str:
    """A reader went from offset 3 to offset 6; nothing accounts for the 2 offsets between them."""
    facts = finding.facts
    return (
        f"a reader went from offset {facts['from_offset']} to offset {facts['to_offset']};"
        f" nothing accounts for the {say.count(facts['missing'], 'offset')} between them"
    )


def nonmonotonic_send(finding: Finding, say: Say) -> str:
    """Acknowledged at offset 7; message 18 of producer 3, sent later, got offset 5."""
    later = say.value(finding.values[-1])
    return f"acknowledged at offset {finding.offset}; {later}, sent later, got offset {finding.facts['later_offset']}"


def int_nonmonotonic_send(finding: Finding, say: Say) -> str:
    """The same within a transaction."""
    return f"{nonmonotonic_send(finding, say)} in the same transaction"


# linearizability


def inconsistent_offset(finding: Finding, say: Say) -> str:
    """Two values at one place."""
    return f"offset {finding.offset} holds two values"


def shared_offset(finding: Finding, say: Say) -> str:
    """Acknowledgements that contradict each other."""
    return f"offset {finding.offset} was acknowledged to {say.count(finding.facts['count'], 'send')}"


def realtime_order(finding: Finding, say: Say) -> str:
    """A later send, a lower offset."""
    first, then = _operation(finding, "x", say), _before_other(finding, say)
    return f"{first} was acknowledged {then} began, which got a lower offset"


def not_linearizable(finding: Finding, say: Say) -> str:
    """Two operations out of order."""
    first, then = _operation(finding, "x", say), _before_other(finding, say)
    return f"{first} was over {then} began, which comes before it in the log"


def _operation(finding: Finding, which: str, say: Say) -> str:
    node, value = finding.facts.get(f"{which}_node"), finding.facts.get(f"{which}_value")
    if node is not None:
        return f"end() by node {node}"
    return "a read" if value is None else say.value(value)


def _before_other(finding: Finding, say: Say) -> str:
    return f"{say.lasted(finding.facts['by_ns'])} before {_operation(finding, 'y', say)}"


def watermark_behind_ack(finding: Finding, say: Say) -> str:
    """A mark that comes too late."""
    facts = finding.facts
    node = f"node {facts['y_node']}" if "y_node" in facts else "a node"
    return (
        f"offset {facts['offset']} was acknowledged at {say.at(facts['x_at'])}; {node} still showed less when asked at"
        f" {say.at(facts['y_at'])} ({say.count(facts['proofs'], 'offset')} like it)"
    )


def watermark_frozen(finding: Finding, say: Say) -> str:
    """A mark that stands."""
    facts = finding.facts
    node = f"node {facts['y_node']}" if "y_node" in facts else "a node"
    return (
        f"{node} showed {facts['mark']} until {say.at(facts['y_at'])}, although offset {facts['offset']} was"
        f" acknowledged at {say.at(facts['x_at'])} ({say.count(facts['proofs'], 'offset')} like it)"
    )


def watermark_ahead(finding: Finding, say: Say) -> str:
    """A mark above what was there."""
    facts = finding.facts
    node = f"node {facts['x_node']}" if "x_node" in facts else "a node"
    what = "an append" if "later append" in finding.tags else "a final read"
    return (
        f"{node} showed {facts['offset']} at {say.at(facts['x_at'])}; {what} that began at {say.at(facts['y_at'])}"
        f" found less ({say.count(facts['proofs'], 'mark')} like it)"
    )


# watermarks


def watermark_regression(finding: Finding, say: Say) -> str:
    """Node 2 showed high watermark 20 at 4.000 s (leader epoch 3), then node 1 showed 11 at 8.000 s (…)."""
    return _fell(finding, say, "high watermark", "high watermark")


def end_offset_regression(finding: Finding, say: Say) -> str:
    """The same of ends."""
    return _fell(finding, say, "end offset", "end offset")


def lso_regression(finding: Finding, say: Say) -> str:
    """The same of last stable offsets."""
    return _fell(finding, say, "last stable offset", "last stable offset")


def log_start_regression(finding: Finding, say: Say) -> str:
    """The same of log starts."""
    return _fell(finding, say, "log start offset", "log start offset")


def lso_above_hw(finding: Finding, say: Say) -> str:
    """Two answers that contradict each other, or one that contradicts itself."""
    facts = finding.facts
    if "one answer" not in finding.tags:
        return _fell(finding, say, "last stable offset", "high watermark")
    shown = (
        f"{_node(say, facts.get('node'))} showed last stable offset {facts['shown_before']} above its own high"
        f" watermark {facts['shown']} in one answer at {say.at(facts['at_ns'])}"
    )
    return f"{shown}; {say.count(facts['answers'], 'answer')} did that" if facts["answers"] > 1 else shown


def lso_stuck(finding: Finding, say: Say) -> str:
    """Node 1 showed last stable offset 5 for 37 s while its high watermark reached 12."""
    facts = finding.facts
    return (
        f"{_node(say, facts.get('node'))} showed last stable offset {facts['stable']} for"
        f" {say.lasted(facts['lasted_ns'])} while its high watermark reached {facts['highest']}"
    )


def _fell(finding: Finding, say: Say, before: str, after: str) -> str:
    facts = finding.facts
    first, second = facts.get("before_node"), facts.get("node")
    who = "" if first == second and first is not None else f"{_node(say, second)} showed "
    mark = "" if before == after else f"{after} "
    fell = (
        f"{_node(say, first)} showed {before} {facts['shown_before']} at {say.at(facts['before_ns'])}"
        f" ({_watermarks_epoch(facts.get('before_epoch'))}), then {who}{mark}{facts['shown']}"
        f" at {say.at(facts['at_ns'])} ({_watermarks_epoch(facts.get('epoch'))})"
    )
    return f"{fell}; {say.count(facts['answers'], 'answer')} fell back like that" if facts["answers"] > 1 else fell


def _node(say: Say, node: int | None) -> str:
    return "an unknown node" if node is None else say.nodes([node])


def _watermarks_epoch(epoch: int | None) -> str:
    return "leader epoch unknown" if epoch is None else f"leader epoch {epoch}"


# metadata


def metadata_disagreement(finding: Finding, say: Say) -> str:
    """Node 2 named leader 2 of epoch 4 at 15.000 s; node 1 still named leader 1 of epoch 3 at 180.000 s."""
    facts = finding.facts
    if "one epoch" not in finding.tags:
        still = (
            f"{say.nodes([facts['node']])} still named {_metadata_leader(finding)} at {_metadata_until(finding, say)}"
        )
        return f"{_metadata_named(finding, say)}; {still}"
    span = f"from {say.at(facts['since_ns'])} to {_metadata_until(finding, say)}"
    if facts["node"] == facts["node_before"]:
        leaders = f"leaders {facts['leader']} and {facts['leader_before']}"
        return f"{say.nodes([facts['node']])} named {leaders} of epoch {facts['epoch']}, {span}"
    one, two = say.nodes([facts["node"]]), say.nodes([facts["node_before"]])
    return (
        f"{one} named leader {facts['leader']} of epoch {facts['epoch']}, {two} named leader {facts['leader_before']}"
        f" of the same epoch, {span}"
    )


def epoch_regression(finding: Finding, say: Say) -> str:
    """Node 1 named leader 1 of epoch 3 at 5.000 s, but leader 2 of epoch 2 at 10.000 s."""
    facts = finding.facts
    if "client" not in facts:
        return f"{_metadata_named(finding, say)}, but {_metadata_leader(finding)} at {_metadata_until(finding, say)}"
    before, node = say.nodes([facts["node_before"]]), say.nodes([facts["node"]])
    return (
        f"client {facts['client']} got epoch {facts['epoch_before']} from {before} at {say.at(facts['since_ns'])},"
        f" but epoch {facts['epoch']} from {node} at {_metadata_until(finding, say)}"
    )


def metadata_incomplete(finding: Finding, say: Say) -> str:
    """Node 1 named leader 3 of epoch 1, but listed only brokers 1,2."""
    facts = finding.facts
    node = say.nodes([facts["node"]])
    if "broker" in finding.tags:
        span = f"from {say.at(finding.time_ns)} to {say.at(finding.until_ns)}"
        return f"{node} left out broker {facts['other']}, which answered, {span}"
    listed = f"listed only brokers {facts['brokers']}" if facts["brokers"] else "listed no brokers"
    return f"{node} named leader {facts['leader']} of epoch {facts['epoch']}, but {listed}"


def leaderless(finding: Finding, say: Say) -> str:
    """No node named a leader from 15.000 s to 26.000 s; 2 answers said there was none."""
    span = f"from {say.at(finding.time_ns)} to {say.at(finding.until_ns)}"
    return f"no node named a leader {span}; {say.count(finding.facts['answers'], 'answer')} said there was none"


def _metadata_named(finding: Finding, say: Say) -> str:
    facts = finding.facts
    leader = f"leader {facts['leader_before']} of epoch {facts['epoch_before']}"
    return f"{say.nodes([facts['node_before']])} named {leader} at {say.at(facts['since_ns'])}"


def _metadata_leader(finding: Finding) -> str:
    return f"leader {finding.facts['leader']} of epoch {finding.facts['epoch']}"


def _metadata_until(finding: Finding, say: Say) -> str:
    return say.at(finding.facts["until_ns"])


# coordinators


def coordinator_mismatch(finding: Finding, say: Say) -> str:
    """Group g: node 1 reported it at node 1 (0.000 s to 20.000 s), node 2 at node 2 (10.000 s to 10.000 s)."""
    facts = finding.facts
    one = f"at {facts['said']} ({say.at(facts['since_ns'])} to {say.at(facts['until_ns'])})"
    two = f"at {facts['other_said']} ({say.at(facts['other_since_ns'])} to {say.at(facts['other_until_ns'])})"
    node, other = say.nodes([facts["node"]]), say.nodes([facts["other"]])
    return f"{facts['thing']}: {node} reported it {one}, {other} {two}"


# leadership


_LEADERSHIP_REQUESTS = {0: "Produce", 1: "Fetch", 2: "ListOffsets"}


def not_leader_loop(finding: Finding, say: Say) -> str:
    """Node 1 refused 5 Produce requests of client x in a row, also after it had refreshed its metadata."""
    facts = finding.facts
    request = _LEADERSHIP_REQUESTS.get(facts["api"], f"type {facts['api']}")
    span = f"from {say.at(facts['first_ns'])} to {say.at(facts['last_ns'])}"
    return (
        f"{say.nodes(finding.nodes)} refused {say.count(facts['refusals'], f'{request} request')} of client"
        f" {facts['client']} in a row, {span}, also after it had refreshed its metadata;"
        f" {say.count(facts['given_up'], 'send')} failed meanwhile"
    )


def impostor_leader(finding: Finding, say: Say) -> str:
    """Node 2 answered 3 requests as leader from 8.000 s to 9.000 s; the others named node 1 as leader of epoch 4."""
    facts = finding.facts
    span = f"from {say.at(facts['began_ns'])} to {say.at(facts['ended_ns'])}"
    return (
        f"{say.nodes(finding.nodes)} answered {say.count(facts['answers'], 'request')} as leader {span};"
        f" the others named node {facts['leader']} as leader of epoch {facts['epoch']}"
    )


def split_brain(finding: Finding, say: Say) -> str:
    """In epoch 3, node 1 acknowledged 4 appends (1.000 s to 2.000 s) and node 2 acknowledged 1 append (...)."""
    facts = finding.facts
    sides = [
        f"node {node} acknowledged {say.count(appends, 'append')} ({say.at(began)} to {say.at(ended)})"
        for node, appends, began, ended in zip(
            finding.nodes, facts["appends"], facts["began_ns"], facts["ended_ns"], strict=True
        )
    ]
    when = f"in epoch {facts['epoch']}" if "epoch" in facts else "side by side"
    return f"{when}, {' and '.join(sides)}" if len(sides) == 2 else f"{when}, {', '.join(sides)}"


# idempotence


def retry_duplicate(finding: Finding, say: Say) -> str:
    """Producer 7 (epoch 0), sequence 0: acknowledged at offset 5 and again at offset 8."""
    facts = finding.facts
    how = "read" if "read twice" in finding.tags else "acknowledged"
    return f"{_batch(finding)}: {how} at offset {facts['low_offset']} and at offset {facts['high_offset']}"


def retry_offset_changed(finding: Finding, say: Say) -> str:
    """The same batch, other offsets."""
    facts = finding.facts
    return (
        f"{_batch(finding)}: {say.count(facts['acks'], 'acknowledgement')} of the same batch,"
        f" at offsets from {facts['low_offset']} to {facts['high_offset']}"
    )


def retry_reorder(finding: Finding, say: Say) -> str:
    """A later sequence at a lower offset."""
    facts = finding.facts
    return (
        f"{_batch(finding)}: at offset {finding.offset}, below the earlier sequence {facts['sequence_before']}"
        f" at offset {facts['place_before']}"
    )


def retry_watermark_regression(finding: Finding, say: Say) -> str:
    """A mark on both sides of a resend."""
    facts = finding.facts
    mark = "high watermark" if "watermark" in finding.tags else "end offset"
    return (
        f"{say.nodes([facts['node']])} showed {mark} {facts['before']} before a batch was resent at"
        f" {say.at(facts['resent_ns'])}, and {facts['after']} after it was handled at {say.at(facts['handled_ns'])}"
    )


def _batch(finding: Finding) -> str:
    facts = finding.facts
    return f"producer {facts['producer_id']} (epoch {facts['producer_epoch']}), sequence {facts['sequence']}"


# transactions


def torn(finding: Finding, say: Say) -> str:
    """Part of it is there."""
    visible, missing, writes = (f"{finding.facts[name]:,}" for name in ("visible", "missing", "writes"))
    return f"readers see {visible} of the transaction's {writes} writes and miss {missing}"


def wrong_outcome(finding: Finding, say: Say) -> str:
    """The other end than the acknowledged one."""
    facts = finding.facts
    if "commit" in finding.tags:
        return (
            "the commit was acknowledged, but readers see no write of the transaction, although"
            f" {facts['aborted']:,} of {facts['writes']:,} reached the log"
        )
    return f"the transaction was aborted, but {facts['visible']:,} of {facts['writes']:,} writes reached readers"


def zombie_write(finding: Finding, say: Say) -> str:
    """A fenced producer wrote on."""
    fenced, written = finding.facts["fenced_ns"], finding.facts["written_ns"]
    return (
        f"another producer took over the transactional id at {say.at(fenced)}; the fenced one sent this message"
        f" {say.lasted(written - fenced)} later, and readers see it"
    )


def offsets_not_atomic(finding: Finding, say: Say) -> str:
    """Inputs and outputs that do not go together."""
    facts = finding.facts
    if "twice" in finding.tags:
        return f"{say.count(facts['outputs'], 'output')} of this input were committed"
    if "no output" in finding.tags:
        past = f"the group committed offset {facts['committed']} in a transaction"
        return f"{past}, but no output of this input was committed"
    stands = "has no offset" if facts["answer"] < 0 else f"is still at offset {facts['answer']}"
    return f"an output of this input was committed, but the group {stands}"


def precommitted_read(finding: Finding, say: Say) -> str:
    """It read its own."""
    return "the transaction polled its own write before it committed"


# cycles


_CYCLES_STEPS_SHOWN = 12


def cycle(finding: Finding, say: Say) -> str:
    """Edge by edge, and which transactions these are."""
    facts = finding.facts
    steps = [_cycles_step(facts, number, say) for number in range(min(len(facts["kinds"]), _CYCLES_STEPS_SHOWN))]
    if len(facts["kinds"]) > _CYCLES_STEPS_SHOWN:
        steps.append(f"and {say.count(len(facts['kinds']) - _CYCLES_STEPS_SHOWN, 'more step')}")
    names = [
        f"T{number} is {_cycles_called(op, say)}"
        for number, op in enumerate(facts["operations"][:_CYCLES_STEPS_SHOWN], 1)
    ]
    return "; ".join([*steps, ", ".join(names)])


def _cycles_step(facts: Mapping[str, Any], number: int, say: Say) -> str:
    kind, before, after = facts["kinds"][number], f"T{facts['sources'][number]}", f"T{facts['destinations'][number]}"
    if kind == "realtime":
        return f"{before} ended before {after} began"
    where = f"{say.place(facts['topics'][number], facts['partitions'][number])}@{facts['offsets'][number]}"
    return {
        "ww": f"{before} wrote before {after} wrote {where}",
        "wr": f"{before} wrote {where} and {after} read it",
        "rw": f"{before} stopped reading before {where}, which {after} wrote",
    }[kind]


def _cycles_called(op: int, say: Say) -> str:
    return f"transaction {op}" if say.foreign else f"transaction {op % (1 << ID_BITS)} of process {op >> ID_BITS}"


# commits


def committed_offset_regression(finding: Finding, say: Say) -> str:
    """Group G committed offset 9 by 15.000 s; at 25.000 s the answer was offset 5 (3 such answers)."""
    return f"{_committed(finding, say)} the answer was offset {finding.facts['shown']}{_so_often(finding, say)}"


def committed_offset_vanished(finding: Finding, say: Say) -> str:
    """Group G committed offset 9 by 15.000 s; at 25.000 s the answer was that there is no commit (3 such answers)."""
    return f"{_committed(finding, say)} the answer was that there is no commit{_so_often(finding, say)}"


def _committed(finding: Finding, say: Say) -> str:
    facts = finding.facts
    made, shown = say.at(facts["committed_ns"]), say.at(facts["shown_ns"])
    return f"group {facts['group']} committed offset {facts['committed']} by {made}; at {shown}"


def _so_often(finding: Finding, say: Say) -> str:
    times = finding.facts["times"]
    return "" if times == 1 else f" ({say.count(times, 'such answer')})"


# groups


def committed_beyond_read(finding: Finding, say: Say) -> str:
    """Group G committed offset 9, but its members had only got to offset 5 (in 3 seconds of the run)."""
    facts = finding.facts
    often = "" if facts["seconds"] == 1 else f" (in {say.count(facts['seconds'], 'second')} of the run)"
    return (
        f"group {facts['group']} committed offset {facts['committed']},"
        f" but its members had only got to offset {facts['handed']}{often}"
    )


def rebalance_loss(finding: Finding, say: Say) -> str:
    """Group G skipped 3 acknowledged records between offsets 4 and 9 that other readers got."""
    facts = finding.facts
    if facts["lost"] == 1:
        lost = f"an acknowledged record at offset {facts['first']}"
    else:
        count = say.count(facts["lost"], "acknowledged record")
        lost = f"{count} between offsets {facts['first']} and {facts['last']}"
    killed = "; a member that was killed while polling may have had it" if "open poll" in finding.tags else ""
    return f"group {facts['group']} skipped {lost} that other readers got{killed}"


def double_ownership(finding: Finding, say: Say) -> str:
    """Group G assigned it to member 7 of process 5 (generation 3) 2.0 s before member 4 of process 6 let go."""
    facts = finding.facts
    new = _groups_member(facts["member"], facts.get("generation"), say)
    old = _groups_member(facts["member_before"], facts.get("generation_before"), say)
    return f"group {facts['group']} assigned it to {new} {say.lasted(facts['overlap_ns'])} before {old} let go"


def _groups_member(member: int, generation: int | None, say: Say) -> str:
    name = f"member {member}"
    if not say.foreign:
        name = f"member {member % (1 << ID_BITS)} of process {member >> ID_BITS}"
    return f"{name} ({'generation unknown' if generation is None else f'generation {generation}'})"


# replicas


def replica_divergence(finding: Finding, say: Say) -> str:
    """Nodes 1 and 2 hold different records; or: node 1 holds a record that nodes 2 and 3 lack."""
    holders, lacking = finding.facts["holders"], finding.facts.get("lacking", ())
    if lacking:
        hold = "holds" if len(holders) == 1 else "hold"
        lack = "lacks" if len(lacking) == 1 else "lack"
        return f"{say.nodes(holders)} {hold} a record that {say.nodes(lacking)} {lack}"
    if len(holders) == 1:
        return f"{say.nodes(holders)} returned different records for this offset"
    return f"{say.nodes(holders)} hold different records"


# liveness


def stall(finding: Finding, say: Say) -> str:
    """No records from offset 2 on for 9.6 s, although more was acknowledged; nodes showed 5."""
    facts = finding.facts
    if "class 3" in finding.tags:
        return (
            f"consumers reached offset {facts['position']} while offset {facts['early']} had long been acknowledged;"
            " another partition of the same consumer was read to its end"
        )
    shown = f"nodes showed up to {facts['shown']}" if "shown" in facts else "no node was seen to answer meanwhile"
    return (
        f"consumers received no records from offset {finding.offset} on for {say.lasted(facts['lasted_ns'])}, from"
        f" {say.at(finding.time_ns)} on, although more was acknowledged; {shown}"
    )


# progress


def no_progress_in_fault(finding: Finding, say: Say) -> str:
    """No send got through for 23.0 s, from 31.000 s on; leader-kill lasted for 20.0 s of that."""
    facts = finding.facts
    fault = facts.get("fault")
    during = f"{fault} lasted for {say.lasted(facts['span_ns'])} of that" if fault else "no fault was active"
    return f"{_progress_waited(finding, say)}; {during}"


def slow_recovery(finding: Finding, say: Say) -> str:
    """No send got through for 44.0 s, from 46.000 s on; 31.0 s of that after leader-kill was undone."""
    facts = finding.facts
    return f"{_progress_waited(finding, say)}; {say.lasted(facts['span_ns'])} of that after {facts['fault']} was undone"


def _progress_waited(finding: Finding, say: Say) -> str:
    return f"no send got through for {say.lasted(finding.facts['lasted_ns'])}, from {say.at(finding.time_ns)} on"


def _lost_write(finding: Finding, say: Say) -> str:
    return (_last_write_of_key if "last of its key" in finding.tags else lost_write)(finding, say)


def _phantom(finding: Finding, say: Say) -> str:
    return (_foreign_record if "foreign" in finding.tags else phantom)(finding, say)


SENTENCES: dict[str, Sentence] = {
    "lost-write": _lost_write,
    "lost-tail": lost_tail,
    "unseen": unseen,
    "phantom": _phantom,
    "aborted-read": aborted_read,
    "duplicate": duplicate,
    "false-ack": false_ack,
    "corrupt": corrupt,
    "misrouted": misrouted,
    "poll-skip": poll_skip,
    "int-poll-skip": int_poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "gap": gap,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "inconsistent-offset": inconsistent_offset,
    "shared-offset": shared_offset,
    "realtime-order": realtime_order,
    "not-linearizable": not_linearizable,
    "watermark-behind-ack": watermark_behind_ack,
    "watermark-frozen": watermark_frozen,
    "watermark-ahead": watermark_ahead,
    "watermark-regression": watermark_regression,
    "end-offset-regression": end_offset_regression,
    "lso-regression": lso_regression,
    "log-start-regression": log_start_regression,
    "lso-above-hw": lso_above_hw,
    "lso-stuck": lso_stuck,
    "metadata-disagreement": metadata_disagreement,
    "epoch-regression": epoch_regression,
    "metadata-incomplete": metadata_incomplete,
    "leaderless": leaderless,
    "coordinator-mismatch": coordinator_mismatch,
    "not-leader-loop": not_leader_loop,
    "impostor-leader": impostor_leader,
    "split-brain": split_brain,
    "retry-duplicate": retry_duplicate,
    "retry-offset-changed": retry_offset_changed,
    "retry-reorder": retry_reorder,
    "retry-watermark-regression": retry_watermark_regression,
    "torn": torn,
    "wrong-outcome": wrong_outcome,
    "zombie-write": zombie_write,
    "offsets-not-atomic": offsets_not_atomic,
    "precommitted-read": precommitted_read,
    "committed-offset-regression": committed_offset_regression,
    "committed-offset-vanished": committed_offset_vanished,
    "committed-beyond-read": committed_beyond_read,
    "rebalance-loss": rebalance_loss,
    "double-ownership": double_ownership,
    "replica-divergence": replica_divergence,
    "stall": stall,
    "no-progress-in-fault": no_progress_in_fault,
    "slow-recovery": slow_recovery,
    "G0": cycle,
    "G1c": cycle,
    "G-single": cycle,
    "G2": cycle,
    "G0-realtime": cycle,
    "G1c-realtime": cycle,
    "G-single-realtime": cycle,
    "G2-realtime": cycle,
}
