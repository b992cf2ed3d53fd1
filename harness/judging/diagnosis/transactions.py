"""Transactions and groups: what was decided, what is visible of it, and what groups are told of their own commits.

hanging-transaction       lso-stuck: nobody ends a transaction. Accounts for stalls and for what was not read
aborted-shown             aborted-read, or wrong-outcome of an abort: readers of what is committed are handed it
torn-transactions         torn: accounts for lost writes, and for what readers passed over, if no more is lost than
                          these transactions and those of the next one may lack: as much as is said of those that were
                          kept, and of any other as much as of the largest of these. Wherever it is: a transaction has
                          parts in many partitions, and what is found names one
wrong-outcome             wrong-outcome of a commit, or zombie-write: the end that was acknowledged is not the one in
                          the log, or somebody who had been fenced wrote on. Accounts for the same
offsets-forgotten         committed-offset-vanished: a group that had committed is told that it had not. Accounts for
                          what it reads again, and outputs that it makes twice
offsets-go-back           committed-offset-regression
offsets-not-atomic        offsets-not-atomic alone: inputs and outputs of one transaction do not go together
owned-twice               double-ownership
committed-unread          committed-beyond-read
isolation                 cycles among transactions, precommitted-read
"""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, listed, when
from harness.judging.diagnosis.delivery import SKIPS, STEPS
from harness.judging.diagnosis.evidence import Evidence, lasted_s

DECIDED = {"torn": "", "wrong-outcome": "commit", "zombie-write": ""}  # with the tag of those that lack something
CYCLES = ("G0", "G1c", "G-single", "G2", "G0-realtime", "G1c-realtime", "G-single-realtime", "G2-realtime")


def hanging_transaction(evidence: Evidence) -> Cause | None:
    """A transaction that nobody ends."""
    proof = evidence.wrong("lso-stuck")
    if not proof:
        return None
    return Cause(
        "hanging-transaction",
        f"a transaction hangs: the last stable offset of {evidence.places(proof)} stood still for"
        f" {lasted_s(proof):.0f} s, longer than any transaction is given",
        "certain",
        tuple(proof),
        tuple(evidence.beside(proof, "stall", "unseen", "lost-tail", "wrong-outcome")),
        because=evidence.quotes(proof, 2),
        remedies=(
            "verify at the leader that a transaction is open before its first batch is appended (KIP-890)",
            "abort by hand what hangs: kafka-transactions.sh find-hanging, abort",
        ),
    )


def aborted_shown(evidence: Evidence) -> Cause | None:
    """What was aborted, and is shown."""
    reads = evidence.wrong("aborted-read")
    proof = [*reads, *evidence.wrong("wrong-outcome", tag="abort")]
    if not proof:
        return None
    in_transactions, ended = bool(evidence.results.figures.transactions), evidence.found("wrong-outcome")
    what = "aborted transactions are shown to readers of what is committed"
    return Cause(
        "aborted-shown",
        f"{what if in_transactions else 'what certainly failed is shown to readers'}:"
        f" {counted(evidence.found('aborted-read'), 'record')}",
        "certain",
        tuple(proof),
        tuple(evidence.seen("G1c", "G1c-realtime", "precommitted-read", "zombie-write", *STEPS)),
        because=(
            *evidence.quotes(proof),
            *when(ended, f"{counted(ended, 'transaction')} whose abort was acknowledged"),
        ),
        remedies=(
            "name the aborted transactions in every answer to a Fetch with read_committed"
            if in_transactions
            else "refuse a batch before anybody can read it",
        ),
    )


def torn_transactions(evidence: Evidence) -> Cause | None:
    """A part of a transaction."""
    proof = evidence.wrong("torn")
    if not proof:
        return None
    committed = evidence.results.figures.transactions.get("committed", 0)
    return Cause(
        "torn-transactions",
        f"transactions are not atomic: of {evidence.found('torn'):,} (of {committed:,} committed) a part is missing",
        "certain",
        tuple(proof),
        (*evidence.seen("wrong-outcome", "offsets-not-atomic"), *_lacking(evidence)),
        because=evidence.quotes(proof),
        remedies=("write the marker of a transaction to all its partitions before its end is acknowledged",),
    )


def _lacking(evidence: Evidence) -> list[Finding]:
    """What is lost, and what readers passed, if transactions may lack so much."""
    may_lack = sum(_may_lack(evidence, name, tag) for name, tag in DECIDED.items())
    lost = evidence.found("lost-write", "lost-tail")
    return evidence.seen("lost-write", "lost-tail", *SKIPS) if lost <= may_lack else []


def _may_lack(evidence: Evidence, anomaly: str, tag: str) -> int:
    """Writes that these transactions lack, at most; one each where that is not said."""
    kept = [_writes(each) for each in evidence.kept(anomaly) if not tag or tag in each.tags]
    found = evidence.tagged(anomaly, tag)[1] if tag else evidence.found(anomaly)
    return sum(missing for missing, _ in kept) + (found - len(kept)) * max((most for _, most in kept), default=1)


def _writes(finding: Finding) -> tuple[int, int]:
    """Of a transaction: how many are missing, and how many could be in one like it."""
    facts = finding.facts
    if "missing" in facts:  # of a torn one
        return facts["missing"], facts["writes"] - 1
    return (facts["aborted"], facts["aborted"]) if "aborted" in facts else (1, 1)


def wrong_outcome(evidence: Evidence) -> Cause | None:
    """An end that is not the one that was acknowledged."""
    proof = evidence.wrong("wrong-outcome", "zombie-write")
    if not proof:
        return None
    return Cause(
        "wrong-outcome",
        f"{counted(len(proof), 'transaction')} did not end as was acknowledged: a late request decided for another one,"
        " or a producer that had been fenced wrote on",
        "likely",
        tuple(proof),
        tuple(_lacking(evidence)),
        because=evidence.quotes(proof, 2),
        remedies=("raise the producer epoch with every transaction, so that late requests are rejected (KIP-890)",),
    )


def offsets_forgotten(evidence: Evidence) -> Cause | None:
    """Commits that are gone."""
    proof = evidence.wrong("committed-offset-vanished")
    if not proof:
        return None
    return Cause(
        "offsets-forgotten",
        f"committed offsets are forgotten: a group that committed gets no offset, in {evidence.places(proof)}",
        "certain",
        tuple(proof),
        (
            *evidence.seen("committed-offset-regression", "offsets-not-atomic", "rebalance-loss", "duplicate"),
            *evidence.seen(*STEPS),
        ),
        because=evidence.quotes(proof, 2),
        remedies=(
            "load a group's offsets whole before its coordinator answers, and expire none of a group that lives",
        ),
    )


def offsets_go_back(evidence: Evidence) -> Cause | None:
    """Commits that are older than they were."""
    proof = evidence.wrong("committed-offset-regression")
    if not proof:
        return None
    return Cause(
        "offsets-go-back",
        f"committed offsets go back: a group gets an older offset than it committed, in {evidence.places(proof)}",
        "certain",
        tuple(proof),
        tuple(evidence.seen("offsets-not-atomic", *STEPS)),
        because=evidence.quotes(proof, 2),
        remedies=("answer OffsetFetch only after what was acknowledged before it is applied",),
    )


def offsets_not_atomic(evidence: Evidence) -> Cause | None:
    """Inputs without outputs, or the reverse."""
    proof = evidence.wrong("offsets-not-atomic")
    if not proof:
        return None
    sorts = sorted({tag for each in proof for tag in each.tags})
    return Cause(
        "offsets-not-atomic",
        f"inputs and outputs of a transaction do not go together: {evidence.found('offsets-not-atomic'):,} times"
        f" ({listed(sorts)})",
        "certain",
        tuple(proof),
        tuple(evidence.seen("duplicate")),
        because=evidence.quotes(proof),
        remedies=("end a transaction in the partition of its group's offsets as in all others",),
    )


def owned_twice(evidence: Evidence) -> Cause | None:
    """Two members with one partition."""
    proof = evidence.wrong("double-ownership")
    if not proof:
        return None
    return Cause(
        "owned-twice",
        f"two members of a group own {evidence.places(proof)} at once",
        "certain",
        tuple(proof),
        tuple(evidence.seen("committed-offset-regression", "rebalance-loss")),
        because=evidence.quotes(proof, 2),
        remedies=("give a partition to a member only when its last one has confirmed that it is revoked",),
    )


def committed_unread(evidence: Evidence) -> Cause | None:
    """Commits of what nobody was handed."""
    proof = evidence.wrong("committed-beyond-read")
    if not proof:
        return None
    return Cause(
        "committed-unread",
        f"a group committed more than it had received, in {evidence.places(proof)}",
        "possible",
        tuple(proof),
        because=evidence.quotes(proof, 2),
        against=("it is the client that commits: repeat the run with another client",),
    )


def isolation(evidence: Evidence) -> Cause | None:
    """Transactions that cannot have come one after the other."""
    proof = evidence.wrong("precommitted-read", *CYCLES)
    if not proof:
        return None
    return Cause(
        "isolation",
        f"transactions are not isolated: {listed(sorted({each.anomaly for each in proof}))}",
        "likely",
        tuple(proof),
        because=(proof[0].detail,),
        remedies=("show nothing of a transaction before it is committed",),
    )
