"""Why a finding is marked as it is: a code for programs, and the words for people, all in one place."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "weak-acks": "acks={acks}, and a fault changes leaders",
    "weak-acks-visibility": "acks={acks}: acknowledged before it is replicated",
    "weak-acks-end": "acks={acks}: acknowledged before it was replicated, end() is held to monotonic reads only",
    "weak-acks-followers": "acks={acks}: followers that a fault holds up keep it from rising while they are in sync",
    "perhaps-not-sent": "perhaps it was not sent: {death}",
    "own-deletion": "the workload deleted the topic",
    "deleted-by-fault": "a fault deleted the topic",
    "setup-unknown": "how the run was set up is unknown, and that may permit it",
    "election-unknown": "unknown whether a fault caused an unclean election",
    "stateless": "the brokers are stateless: any node may lead any partition, and coordinate any group",
    "rebalance": "its group was rebalancing",
    "markers-unknown": "the history knows of no transactions there, whose markers would leave such gaps",
    "late-retry": "without idempotence a client's retry may come after what was sent later",
    "requests-sent-twice": "a fault sends requests twice, and without idempotence both are appended",
    "client-resends": "{client} may resend across a leader change",
    "client-asked-again": "{client} asked for these offsets again by itself, and was given what it asked for",
    "offsets-settle": "a transaction's end is acknowledged before its offsets are seen everywhere",
    "unclean-election": "unclean leader election is on, and a fault changes leaders",
    "deposed-coordinator": "a coordinator that a fault had deposed may answer before it knows of its successor",
    "coordinator-may-have-moved": "the coordinator may have moved without any fault, and the old one answered",
    "member-thrown-out": "a fault was there: a member may have been thrown out without knowing it",
    "perhaps-thrown-out": "no generation is known: on a busy machine a member may be thrown out and hear of it late",
    "killed-in-poll": "a member was killed in a poll, and may have had them in its hands",
    "new-leader-mark": "a fault changes leaders, and a new one does not know the high watermark at once",
    "deposed-leader": "a leader that a fault had deposed answered before it knew of its successor",
    "deposed-without-fault": "a leader that had been deposed, by no fault, may have answered before it knew of it",
    "restarted-follower": "a follower that a fault restarted knows an older watermark until it hears from its leader",
    "leadership-unknown": "no leader epoch is known: by a fault the node may have lost the lead and regained it",
    "moved-unseen": "no leader epoch is known: leadership may have moved from one node to the other without any fault",
    "slow-to-hear": "a node may hear late of what changed without any fault: it was over within ten seconds",
    "there-and-back": "a fault changes leaders, and within a second one may have come back",
    "moved-without-fault": "no fault changes leaders, and nodes changed their minds all the same: it may have moved",
    "near-fault": "a fault was there, or had been there not long before",
    "run-stood-still": "the whole run stalled, not only the broker",
    "within-limit": "it was over before the limit of the scenario",
    "blocked-by-fault": "a fault was there that may keep everything from getting through",
    "holes": "the history has holes, and what is missing may be there",
    "no-write-isolation": "Kafka does not isolate writes: those of transactions interleave",
    "readers-behind": "a poll need not return all that is there: readers may be behind, partition by partition",
    "retry-appended": "without idempotence a client's retry may be appended again",
    "renumbered": "its producer restarted its sequence numbers and may have written again",
    "renumbered-unseen": "a fault came, and without taps nobody knows whether {client} restarted its sequence numbers",
    "interrupted": "the run was interrupted, and with it the final read",
    "offset-unsaid": "the imported history does not say which offset it was given",
    "client-assumed": "no broker said so: the client took it for written because a later batch was",
    "client-may-assume": "{client} may take a batch for written because a later one was",
    "new-leader": "a new leader does not know the high watermark before it has heard from its followers",
    "other-node-epoch-unknown": "another node, and a fault changes leaders; no leader epoch is known",
    "two-reads": "a broker reads the two one after the other, and the high watermark may rise between",
    "epoch-unknown": "a fault changes leaders, and no leader epoch is known",
    "new-leader-unknown": "a fault changes leaders, and what the new one knows is not known",
    "brief": "it was over within the time that nodes need to hear of a new leader",
    "stale-metadata-fault": "a fault gave old answers to Metadata",
    "deposed-unaware": "a leader that a fault had deposed did not know it yet",
    "coordinator-moved": "coordinators move with their leaders, and a fault changes leaders",
    "cut-off": "a node that a fault cuts off, or that has just come back, does not know of new leaders",
    "producer-damaged": "the history of its producer is damaged",
    "no-evidence": "its evidence could not be read",
}

# the same in two or three words, where a line has no room for more
SHORT_WORDS: dict[str, str] = {
    "weak-acks": "acks={acks}",
    "weak-acks-visibility": "acks={acks}",
    "weak-acks-end": "acks={acks}",
    "weak-acks-followers": "acks={acks}",
    "own-deletion": "topic deleted by the workload",
    "deleted-by-fault": "topic deleted by a fault",
    "stateless": "stateless brokers",
    "rebalance": "group rebalancing",
    "late-retry": "no idempotence",
    "requests-sent-twice": "no idempotence",
    "retry-appended": "no idempotence",
    "unclean-election": "unclean leader election",
    "new-leader-mark": "new leader",
    "new-leader": "new leader",
    "deposed-leader": "leader just deposed",
    "deposed-unaware": "leader just deposed",
    "within-limit": "within the limits",
    "near-fault": "during a fault",
    "blocked-by-fault": "during a fault",
    "run-stood-still": "whole run paused",
    "no-write-isolation": "Kafka does not isolate writes",
    "readers-behind": "Kafka readers may lag behind",
    "brief": "until nodes knew the new leader",
}


def words(code: str, about: dict[str, str]) -> str:
    """The sentence of a code."""
    return WORDS[code].format(**about) if code else ""


def mark_of(kept: dict[str, str]) -> str:
    """A mark as results.json has it, in words."""
    return f"{kept['status']}: {kept['why']}" if kept["why"] else kept["status"]
