"""What each anomaly means for whoever uses the broker: a sentence to the checker's own, which says what was seen."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    "lost-write": "The producer was told that its message is safe, and readers have passed the place where it should"
    " be.",
    "lost-tail": "The broker acknowledged the message, and the log ends before it.",
    "unseen": "The message is below the end of the log and may still be there; no reader got that far.",
    "phantom": "Data came into being that no producer of this run wrote.",
    "aborted-read": "An application acted on data that does not exist according to its producer.",
    "duplicate": "An application that counts or bills by message does it twice; idempotence exists to prevent that.",
    "false-ack": "The producer believes that its message is stored, and cannot say where: perhaps nowhere.",
    "corrupt": "The bytes that were read are not the bytes that were written.",
    "misrouted": "Readers of one partition receive data of another; keys and order mean nothing any more.",
    "inconsistent-offset": "Two readers that ask for the same offset get different messages: the log is no longer one"
    " log.",
    "shared-offset": "Two producers were both told that this offset is theirs, so one of the messages has no place of"
    " its own. Counting the messages that arrive can hide this.",
    "realtime-order": "What was written later stands earlier in the log: causes come after their effects.",
    "not-linearizable": "There is no order of these operations that explains what the clients saw: some client was told"
    " something that was not true at any moment of its call.",
    "watermark-behind-ack": "A producer was told that its message is safe, and after that a node said it does not have"
    " it.",
    "watermark-frozen": "Messages are accepted but cannot be read: consumers stop, without an error.",
    "watermark-ahead": "Data was shown as safe before it was: who read it may have read what never came to be.",
    "watermark-regression": "What could be read before cannot be read now; a consumer may be thrown back or wait.",
    "end-offset-regression": "A client that asks for the end and starts there may read twice, or wait for what is"
    " there.",
    "lso-regression": "Transactions that had ended look open again: read_committed consumers are thrown back.",
    "log-start-regression": "Deleted records seem to be there again.",
    "lso-above-hw": "read_committed consumers are offered what is not replicated yet.",
    "lso-stuck": "A transaction hangs: read_committed consumers of the partition see nothing new until somebody ends"
    " it.",
    "metadata-disagreement": "Which node leads depends on whom a client asks, so clients write to different places.",
    "epoch-regression": "A client that knew the new leader is sent back to the old one.",
    "metadata-incomplete": "A client that asks this node cannot reach what that broker leads.",
    "leaderless": "Clients can neither write to the partition nor read from it.",
    "coordinator-mismatch": "Members of one group, or producers of one transactional id, talk to different"
    " coordinators.",
    "not-leader-loop": "The client asks the wrong node, is refused, asks again, and never gets to the right one; its"
    " sends time out although the leader is there.",
    "impostor-leader": "A node that does not lead takes writes or answers reads: what it says need not be true.",
    "split-brain": "Two nodes accept writes at the same time, and one of both histories will be thrown away.",
    "retry-duplicate": "Idempotence did not hold: the broker took the resend of a batch for a new one.",
    "retry-offset-changed": "The producer got two offsets for one message.",
    "retry-reorder": "Idempotence promises the order of a producer's messages, and it was not kept.",
    "retry-watermark-regression": "The update of the watermark is not idempotent: a resend puts an old value over a new"
    " one.",
    "torn": "A transaction is all or nothing, and this one is neither.",
    "wrong-outcome": "The application got one outcome of its transaction, and readers see the other.",
    "zombie-write": "A producer that had been replaced still wrote: fencing does not hold.",
    "offsets-not-atomic": "What was consumed and what was produced from it do not go together: work is lost or done"
    " twice.",
    "precommitted-read": "A transaction saw its own writes before they were committed.",
    "committed-offset-regression": "A group begins again at an older place, and processes messages twice.",
    "committed-offset-vanished": "A group begins where its policy says, at the start or the end: twice, or never.",
    "committed-beyond-read": "The group will skip messages that none of its members received.",
    "double-ownership": "Two members process the same messages at the same time.",
    "rebalance-loss": "Messages were skipped while partitions moved between members.",
    "replica-divergence": "Replicas differ below the watermark: which message is true depends on who leads.",
    "stall": "Consumers waited for nothing while something was there to read.",
    "no-progress-in-fault": "Producers could not get anything through for longer than the scenario allows.",
    "slow-recovery": "The fault was over, and producers still could not get anything through.",
    "poll-skip": "A consumer was moved past messages that are there: for it they are lost.",
    "nonmonotonic-poll": "A consumer received messages again, or in the wrong order.",
    "int-poll-skip": "A message is missing in the middle of what one poll returned.",
    "int-nonmonotonic-poll": "What one poll returned is not in the order of the log.",
    "gap": "Offsets are missing in what was read, and neither markers nor compaction account for them.",
    "nonmonotonic-send": "The messages of one producer are not in the order in which it sent them.",
    "int-nonmonotonic-send": "The messages of one transaction are not in the order in which they were sent.",
    "G0": "Writes of transactions are interleaved. Kafka does not promise otherwise.",
    "G1c": "Transactions depend on each other in a circle: none of them can have come first.",
    "G-single": "A transaction saw one part of another's effects, and not the rest.",
    "G2": "Transactions each missed what the other wrote.",
    "G0-realtime": "Writes of transactions are interleaved against the order of time.",
    "G1c-realtime": "Transactions depend on each other in a circle, if the order of time counts.",
    "G-single-realtime": "A transaction began after another had been committed, and did not see its effects.",
    "G2-realtime": "Transactions each missed what the other wrote, if the order of time counts.",
}  # fmt: skip
