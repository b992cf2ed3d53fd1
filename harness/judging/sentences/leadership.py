"""Sentences about leaders and coordinators: what nodes say of them, and who acts as one."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def metadata_disagreement(finding: Finding, say: Wording) -> str:
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


def epoch_regression(finding: Finding, say: Wording) -> str:
    """Node 1 named leader 1 of epoch 3 at 5.000 s, but leader 2 of epoch 2 at 10.000 s."""
    facts = finding.facts
    if "client" not in facts:
        return f"{_metadata_named(finding, say)}, but {_metadata_leader(finding)} at {_metadata_until(finding, say)}"
    before, node = say.nodes([facts["node_before"]]), say.nodes([facts["node"]])
    return (
        f"client {facts['client']} got epoch {facts['epoch_before']} from {before} at {say.at(facts['since_ns'])},"
        f" but epoch {facts['epoch']} from {node} at {_metadata_until(finding, say)}"
    )


def metadata_incomplete(finding: Finding, say: Wording) -> str:
    """Node 1 named leader 3 of epoch 1, but listed only brokers 1,2."""
    facts = finding.facts
    node = say.nodes([facts["node"]])
    if "broker" in finding.tags:
        span = f"from {say.at(finding.time_ns)} to {say.at(finding.until_ns)}"
        return f"{node} left out broker {facts['other']}, which answered, {span}"
    listed = f"listed only brokers {facts['brokers']}" if facts["brokers"] else "listed no brokers"
    return f"{node} named leader {facts['leader']} of epoch {facts['epoch']}, but {listed}"


def leaderless(finding: Finding, say: Wording) -> str:
    """No node named a leader from 15.000 s to 26.000 s; 2 answers said there was none."""
    span = f"from {say.at(finding.time_ns)} to {say.at(finding.until_ns)}"
    return f"no node named a leader {span}; {say.count(finding.facts['answers'], 'answer')} said there was none"


def _metadata_named(finding: Finding, say: Wording) -> str:
    facts = finding.facts
    leader = f"leader {facts['leader_before']} of epoch {facts['epoch_before']}"
    return f"{say.nodes([facts['node_before']])} named {leader} at {say.at(facts['since_ns'])}"


def _metadata_leader(finding: Finding) -> str:
    return f"leader {finding.facts['leader']} of epoch {finding.facts['epoch']}"


def _metadata_until(finding: Finding, say: Wording) -> str:
    return say.at(finding.facts["until_ns"])


def coordinator_mismatch(finding: Finding, say: Wording) -> str:
    """Group g: node 1 reported it at node 1 (0.000 s to 20.000 s), node 2 at node 2 (10.000 s to 10.000 s)."""
    facts = finding.facts
    one = f"at {facts['said']} ({say.at(facts['since_ns'])} to {say.at(facts['until_ns'])})"
    two = f"at {facts['other_said']} ({say.at(facts['other_since_ns'])} to {say.at(facts['other_until_ns'])})"
    node, other = say.nodes([facts["node"]]), say.nodes([facts["other"]])
    return f"{facts['thing']}: {node} reported it {one}, {other} {two}"


_LEADERSHIP_REQUESTS = {0: "Produce", 1: "Fetch", 2: "ListOffsets"}


def not_leader_loop(finding: Finding, say: Wording) -> str:
    """Node 1 refused 5 Produce requests of client x in a row, also after it had refreshed its metadata."""
    facts = finding.facts
    request = _LEADERSHIP_REQUESTS.get(facts["api"], f"type {facts['api']}")
    span = f"from {say.at(facts['first_ns'])} to {say.at(facts['last_ns'])}"
    return (
        f"{say.nodes(finding.nodes)} refused {say.count(facts['refusals'], f'{request} request')} of client"
        f" {facts['client']} in a row, {span}, also after it had refreshed its metadata;"
        f" {say.count(facts['given_up'], 'send')} failed meanwhile"
    )


def impostor_leader(finding: Finding, say: Wording) -> str:
    """Node 2 answered 3 requests as leader from 8.000 s to 9.000 s; the others named node 1 as leader of epoch 4."""
    facts = finding.facts
    span = f"from {say.at(facts['began_ns'])} to {say.at(facts['ended_ns'])}"
    return (
        f"{say.nodes(finding.nodes)} answered {say.count(facts['answers'], 'request')} as leader {span};"
        f" the others named node {facts['leader']} as leader of epoch {facts['epoch']}"
    )


def split_brain(finding: Finding, say: Wording) -> str:
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


SENTENCES: dict[str, Sentence] = {
    "metadata-disagreement": metadata_disagreement,
    "epoch-regression": epoch_regression,
    "metadata-incomplete": metadata_incomplete,
    "leaderless": leaderless,
    "coordinator-mismatch": coordinator_mismatch,
    "not-leader-loop": not_leader_loop,
    "impostor-leader": impostor_leader,
    "split-brain": split_brain,
}
