"""Histories of really sick brokers, of any size: what a check may not take long for, although very much is wrong.

    disputed leaders        at every metadata refresh every node names another leader for every partition, and leaves
                            out another broker; epochs that stay, that rise, and that nodes learn of seconds late
    refusals                answers that this node is not the leader, hundreds of thousands for a million events, to
                            eight clients that refresh their metadata all the time and are sent back there
    all info                every send times out, though all of it was appended
    acks=0                  nothing is acknowledged: sends end without an offset
    read twice, lost and shared
                            every record is handed out twice, every other value is lost and the one before it lies in
                            its place, every offset that was acknowledged was so to two sends
    falling watermarks      high watermarks, ends, last stable offsets and log starts fall at every answer
    transactions            about 75,000 of them for a million events, in 4 partitions each, half of them aborted; some
                            of what was aborted is read and some of what was committed is not, and transactions read
                            what others have not committed yet
    rebalances              a group of 500 members that rebalances all the time: partitions are given away before they
                            are let go of, committed offsets go back or vanish, and records are passed by
    10,000 partitions       healthy, and very wide
    20,000 groups           healthy, but one consumer is in all of them, and commits in each
    100,000 topics          healthy, but nodes are asked for them all, beside the load
    100,000 epochs          healthy, but leaders change all the time: nine answers to Metadata for each epoch
    200 faults              healthy, but clients wait through one fault after the other
    resends                 batches of others at the tap, each sent twice, acknowledged twice and read at both offsets
    sends and polls         healthy: sends and polls of eight partitions and nothing else, as Jepsen records it

Most of them are a healthy load (`bench.history_load`) of which something is changed, or beside which something lies
that makes up most of the events. Everything is a function of numbers here as well, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.sick.clients import AllInfo, NoAcknowledgements, SendsAndPolls
from bench.sick.large import ManyFaults, Wide
from bench.sick.leadership import DisputedLeaders, Refusals
from bench.sick.logs import FallingWatermarks, Resends, TwiceLostAndShared
from bench.sick.many import ManyEpochs, ManyGroups, ManyTopics
from bench.sick.rebalances import Rebalances
from bench.sick.rows import SICK_TEXTS, Story
from bench.sick.transactions import Transactions
from harness.history.sealing import write_history


@dataclass(frozen=True)
class Shape:
    """A sort of sickness, for about so many events, and what a check has to know of it."""

    make: Callable[[int], Story]
    acks: str = "all"
    foreign: bool = False


def generate(directory: Path, name: str, events: int) -> Path:
    """A sealed run of that shape."""
    story = SHAPES[name].make(events)
    about = {
        "processes": {str(number): told for number, told in story.processes.items()},
        "topics": {str(number): told for number, told in story.topics.items()},
        "damage": [],
        "damaged_processes": [],
        "has_holes": False,
    }
    write_history(directory, story.streams, SICK_TEXTS, about)
    return directory


SHAPES = {
    "disputed leaders": Shape(DisputedLeaders.story),
    "refusals": Shape(Refusals.story),
    "all info": Shape(AllInfo.story),
    "acks=0": Shape(NoAcknowledgements.story, acks="0"),
    "read twice, lost and shared": Shape(TwiceLostAndShared.story),
    "falling watermarks": Shape(FallingWatermarks.story),
    "transactions": Shape(Transactions.story),
    "rebalances": Shape(Rebalances.story),
    "10,000 partitions": Shape(Wide.story),
    "20,000 groups": Shape(ManyGroups.story),
    "100,000 topics": Shape(ManyTopics.story),
    "100,000 epochs": Shape(ManyEpochs.story),
    "200 faults": Shape(ManyFaults.story),
    "resends": Shape(Resends.story),
    "sends and polls": Shape(SendsAndPolls.story, foreign=True),
}
