"""The events of a made history: those of its load, block by block, and the few of everything else at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bench.history_plan import (
    FINAL_POLL,
    FIRST_FINAL,
    MS,
    PROBE,
    RUN,
    RUNS_OF_A_POLL,
    START_NS,
    TEXT,
    TOPIC,
    TXN_FINAL,
    TXN_MEMBER,
    TXN_PARTITIONS,
    TXN_PRODUCER,
    TXN_RAW,
    TXN_SENDS,
    TXN_TOPIC,
    Numbers,
    Plan,
    Planted,
    blocks,
    make_rows,
)
from harness.foundation.protocol import Api
from harness.history.schema import FIRST_TAP, ID_BITS, NEMESIS_PROCESS, F, FaultStage, Kind, OffsetView, Status, Type
from harness.history.sources import Rows

RECORDS_OF_A_POLL = RUN * RUNS_OF_A_POLL
ON_ITS_WAY_NS = 2 * MS  # a request goes to whoever leads when it is sent


@dataclass(frozen=True)
class Load:
    """The load, its final read, and who watched it."""

    plan: Plan
    planted: Planted

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """Their invocations or completions."""
        plan = self.plan
        for messages in blocks(plan.messages):
            partitions, values = plan.partition(messages), plan.value(messages)
            yield make_rows(
                kind, len(messages), process=plan.producer(partitions), counter=2 * messages + (kind is Kind.COMPLETE),
                time=plan.acknowledged(messages // RUN), invoked=plan.invoked(messages), op=values, value=values,
                f=F.SEND, type=Type.OK, topic=TOPIC, partition=partitions, offset=plan.offset(messages),
                sequence=plan.offset(messages), error=0,
            )  # fmt: skip

    def polls(self, kind: Kind) -> Iterator[Rows]:
        """Of the load's consumers."""
        for polls in blocks(self.plan.polls):
            columns = self._poll(polls)
            counter = columns.pop("counter") + (kind is Kind.COMPLETE) * (RECORDS_OF_A_POLL + 1)
            yield make_rows(
                kind, len(polls), counter=counter, f=F.POLL, type=Type.OK, error=0, count=RECORDS_OF_A_POLL, **columns
            )

    def _poll(self, polls: Numbers) -> dict[str, Numbers]:
        """What an event of a poll has in common with the others; its counter is that of the invocation."""
        consumers = self.plan.clients
        process, turn = self.plan.consumer(polls % consumers), polls // consumers
        before = self.plan.polled(np.maximum(0, polls - consumers))
        return {
            "process": process,
            "op": (process << ID_BITS) + turn,
            "invoked": np.where(polls < consumers, START_NS, before + 1_000),
            "time": self.plan.polled(polls),
            "counter": turn * (RECORDS_OF_A_POLL + 2),
        }

    def reads(self) -> Iterator[Rows]:
        """Records that the load's consumers were handed."""
        plan = self.plan
        for numbers in blocks(plan.messages):
            polls, inside = numbers // RECORDS_OF_A_POLL, numbers % RECORDS_OF_A_POLL
            messages = plan.run_read(numbers) * RUN + inside % RUN
            shown = np.where(np.isin(messages, self.planted.backward), self._before(messages), messages)
            columns = self._poll(polls)
            columns["counter"] += 1 + inside
            yield self._records(messages, shown, plan.offset(shown), columns)

    def _before(self, messages: Numbers) -> Numbers:
        """The message before it in its partition."""
        return np.where(messages % RUN == 0, messages - self.plan.partitions * RUN + RUN - 1, messages - 1)

    def final_reads(self) -> Iterator[Rows]:
        """Records of the final read, partition by partition."""
        plan = self.plan
        for numbers in blocks(plan.messages):
            partitions = np.searchsorted(plan.starts, numbers, "right") - 1
            offsets = numbers - plan.starts[partitions]
            messages = (offsets // RUN * plan.partitions + partitions) * RUN + offsets % RUN
            shown = np.where(np.isin(messages - 1, self.planted.doubled), messages - 1, messages)
            columns = self._final(partitions)
            columns |= {"time": self._handed(numbers), "counter": numbers + 2 * partitions + 1}
            yield self._records(messages, shown, offsets, columns)

    def _records(self, messages: Numbers, shown: Numbers, offsets: Numbers, columns: dict[str, Numbers]) -> Rows:
        plan = self.plan
        partitions = plan.partition(messages)
        rows = make_rows(
            Kind.RECORD, len(messages), topic=TOPIC, partition=partitions, offset=offsets, value=plan.value(shown),
            producer=plan.producer(partitions), sequence=plan.offset(shown), status=Status.GOOD, **columns,
        )  # fmt: skip
        return rows[~np.isin(messages, self.planted.lost)]

    def finals(self, kind: Kind) -> Iterator[Rows]:
        """The final reads themselves."""
        plan = self.plan
        partitions = np.arange(plan.partitions)
        first, end = plan.starts[:-1], plan.starts[1:]
        counter = (end + 1 if kind is Kind.COMPLETE else first) + 2 * partitions
        yield make_rows(
            kind, len(partitions), f=F.FINAL, type=Type.OK, topic=TOPIC, partition=partitions, offset=end - first,
            end=end - first, count=end - first, time=self._handed(np.maximum(first, end - 1)), counter=counter,
            **self._final(partitions),
        )  # fmt: skip

    def _final(self, partitions: Numbers) -> dict[str, Numbers]:
        process = FIRST_FINAL + partitions % 2
        began = self._handed(self.plan.starts[partitions]) - 2 * MS
        return {"process": process, "op": (process << ID_BITS) + partitions, "invoked": began}

    def _handed(self, numbers: Numbers) -> Numbers:
        return self.plan.final_ns + (numbers // FINAL_POLL + 3) * MS

    def probes(self) -> Iterator[Rows]:
        """One after the other: Fetch, ListOffsets and Metadata of a partition, then of the next."""
        plan = self.plan
        for numbers in blocks(plan.probes):
            partitions, invoked = plan.probe(numbers)
            api = np.array([Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.LIST_OFFSETS])[numbers % 4]
            leader, epoch = plan.leader(partitions, invoked)
            mark = plan.watermark(partitions, invoked + MS // 2)
            before = plan.shown_before(numbers)
            mark = np.where(np.isin(numbers, self.planted.fallen), before - 1, mark)
            mark = np.where(np.isin(numbers, self.planted.stale), before, mark)
            cut = (invoked >= plan.fault_ns[0]) & (invoked < plan.fault_ns[1])
            asked = numbers // 4 // plan.partitions % 3 + 1
            rows = make_rows(
                Kind.PROBE, len(numbers), process=PROBE, counter=numbers, invoked=invoked, time=invoked + MS, api=api,
                node=np.where(api == Api.METADATA, np.where(cut & (asked == 1), 2, asked), leader), topic=TOPIC,
                partition=partitions, leader_epoch=epoch, error=0,
            )  # fmt: skip
            _where(rows, api == Api.FETCH, high_watermark=mark, last_stable_offset=mark, log_start=0)
            _where(rows, api == Api.LIST_OFFSETS, offset=mark, view=OffsetView.LATEST)
            brokers = np.where(cut, TEXT["2,3"], TEXT["1,2,3"])
            _where(rows, api == Api.METADATA, leader=leader, brokers=brokers, isr=brokers, count=np.where(cut, 2, 3))
            yield rows

    def produces(self) -> Iterator[Rows]:
        """Batches of producers at the tap."""
        plan = self.plan
        for runs in blocks(plan.runs):
            partitions, invoked = runs % plan.partitions, plan.invoked(runs * RUN + RUN - 1)
            producer = plan.producer(partitions)
            yield make_rows(
                Kind.EXCHANGE, len(runs), api=Api.PRODUCE, api_version=10, op=(FIRST_TAP << ID_BITS) + 2 * runs,
                counter=2 * runs, invoked=invoked, time=plan.acknowledged(runs) - MS // 2, acks=-1,
                client=TEXT["tidegauge-producer-10"] + producer - producer.min(), producer_id=producer,
                producer_epoch=0,
                **self._exchange(runs, invoked),
            )  # fmt: skip

    def fetches(self) -> Iterator[Rows]:
        """The same batches on their way to consumers."""
        plan = self.plan
        for runs in blocks(plan.runs):
            partitions, done = runs % plan.partitions, plan.acknowledged(runs)
            mark = plan.watermark(partitions, done + MS // 2)
            consumer = plan.consumer(partitions)
            common = self._exchange(runs, done)
            yield make_rows(
                Kind.EXCHANGE, len(runs), api=Api.FETCH, api_version=16, op=(FIRST_TAP << ID_BITS) + 2 * runs + 1,
                counter=2 * runs + 1, invoked=done - MS // 2, time=done + MS, asked=common["offset"],
                view=OffsetView.LATEST, high_watermark=mark, last_stable_offset=mark,
                leader_epoch=plan.leader(partitions, done - ON_ITS_WAY_NS)[1],
                client=TEXT["tidegauge-consumer-20"] + consumer - consumer.min(), **common,
            )  # fmt: skip

    def _exchange(self, runs: Numbers, at_ns: Numbers) -> dict[str, Any]:
        """What both directions tell of a batch."""
        plan = self.plan
        partitions, offsets = runs % plan.partitions, runs // plan.partitions * RUN
        crc = ((runs * 2_654_435_761) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        return {
            "process": FIRST_TAP, "type": Type.OK, "connection": partitions % plan.clients, "topic": TOPIC,
            "node": plan.leader(partitions, at_ns - ON_ITS_WAY_NS)[0], "partition": partitions, "offset": offsets,
            "count": RUN, "error": 0, "log_start": 0, "sequence": offsets, "crc": crc,
        }  # fmt: skip


def _where(rows: Rows, chosen: Any, **columns: Any) -> None:
    for name, values in columns.items():
        rows[name] = np.where(chosen, values, rows[name])


@dataclass(frozen=True)
class Extras:
    """What there is little of: transactions, a group that reads them, phases and a fault."""

    plan: Plan

    @cached_property
    def rows(self) -> dict[Kind, Rows]:
        """All of it, in the order of time."""
        made: dict[Kind, list[Rows]] = {Kind.PHASE: [self._phases()], Kind.FAULT: [self._faults()]}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            made[kind] = [*self._sends(kind), *self._members(kind), *self._finals(kind)]
        made[Kind.RECORD] = self._records()
        joined = {kind: np.concatenate(parts) for kind, parts in made.items()}
        return {kind: rows[np.argsort(rows["time"], kind="stable")] for kind, rows in joined.items()}

    @cached_property
    def _txns(self) -> Numbers:
        return np.arange(self.plan.transactions, dtype=np.int64)

    def _began(self, txns: Numbers) -> Numbers:
        lasted = self.plan.end_ns - START_NS - 40 * MS
        return START_NS + 10 * MS + txns * (lasted // self.plan.transactions)

    def _op(self, txns: Numbers) -> Numbers:
        return ((TXN_PRODUCER + txns % TXN_PARTITIONS) << ID_BITS) + txns * (TXN_SENDS + 1) + 1

    def _end(self, partitions: Numbers) -> Numbers:
        """Transactions of a partition, each with its marker."""
        return (self.plan.transactions - partitions + TXN_PARTITIONS - 1) // TXN_PARTITIONS * (TXN_SENDS + 1)

    def _messages(self, txns: Numbers) -> dict[str, Any]:
        """A row for each message of the transactions."""
        each, inside = np.repeat(txns, TXN_SENDS), np.tile(np.arange(TXN_SENDS), len(txns))
        values = self._op(each) + 1 + inside
        return {
            "txn": self._op(each), "value": values, "topic": TXN_TOPIC, "partition": each % TXN_PARTITIONS,
            "offset": each // TXN_PARTITIONS * (TXN_SENDS + 1) + inside,
            "sequence": each // TXN_PARTITIONS * TXN_SENDS + inside,
        }  # fmt: skip

    def _read(self, txns: Numbers) -> dict[str, Any]:
        """The same as records; `txn` of a record would be a transaction of its reader."""
        return {name: values for name, values in self._messages(txns).items() if name != "txn"}

    def _sends(self, kind: Kind) -> list[Rows]:
        """Producers, their transactions, and what is sent in them."""
        txns, last = self._txns, kind is Kind.COMPLETE
        producers = TXN_PRODUCER + np.arange(TXN_PARTITIONS)
        names = TEXT["txn-0"] + np.arange(TXN_PARTITIONS)
        process, began = TXN_PRODUCER + txns % TXN_PARTITIONS, self._began(txns)
        ended = np.where(txns % 10 == 9, Type.FAIL, Type.OK)
        counter = 2 + 2 * txns * (TXN_SENDS + 1)
        messages = self._messages(txns)
        return [
            make_rows(kind, TXN_PARTITIONS, process=producers, counter=0 + last, op=producers << ID_BITS, f=F.INIT,
                      type=Type.OK, invoked=START_NS, time=START_NS + MS, error=0, name=names),
            make_rows(kind, len(txns), process=process, counter=counter + last, op=self._op(txns), f=F.TXN, type=ended,
                      invoked=began, time=began + 5 * MS, error=0, name=names[txns % TXN_PARTITIONS], count=TXN_SENDS),
            make_rows(kind, len(txns) * TXN_SENDS, process=np.repeat(process, TXN_SENDS), f=F.SEND,
                      counter=np.repeat(counter, TXN_SENDS) + 2 + 2 * np.tile(np.arange(TXN_SENDS), len(txns)) + last,
                      op=messages["value"], type=np.repeat(ended, TXN_SENDS), error=0,
                      invoked=np.repeat(began + MS, TXN_SENDS), time=np.repeat(began + 5 * MS, TXN_SENDS), **messages),
        ]  # fmt: skip

    @property
    def _committed(self) -> Numbers:
        committed: Numbers = self._txns[self._txns % 10 != 9]
        return committed

    def _member(self, txns: Numbers) -> dict[str, Any]:
        """A poll for each transaction by the member that owns its partition."""
        process = TXN_MEMBER + txns % 2
        began = self._began(txns) + 6 * MS
        return {"process": process, "op": (process << ID_BITS) + 100 + 2 * txns, "invoked": began, "time": began + MS}

    def _members(self, kind: Kind) -> list[Rows]:
        """Two of them, that share the partitions."""
        last, txns = kind is Kind.COMPLETE, self._committed
        members, partitions = TXN_MEMBER + np.arange(2), np.arange(TXN_PARTITIONS)
        owners = TXN_MEMBER + partitions % 2
        polls = self._member(txns)
        commits = polls | {"op": polls["op"] + 1, "invoked": polls["time"] + 1_000, "time": polls["time"] + MS}
        common: dict[str, Any] = {"type": Type.OK, "error": 0, "name": TEXT["group"]}
        places = {"topic": TXN_TOPIC, "partition": partitions}
        return [
            make_rows(kind, 2, process=members, counter=0 + last, op=members << ID_BITS, f=F.SUBSCRIBE,
                      member=members << ID_BITS, invoked=START_NS, time=START_NS + MS, **common),
            make_rows(kind, TXN_PARTITIONS, process=owners, counter=2 + 2 * partitions + last, f=F.ASSIGN,
                      op=(owners << ID_BITS) + 1 + partitions, member=owners << ID_BITS,
                      invoked=START_NS + 2 * MS, time=START_NS + 3 * MS, **places, **common),
            make_rows(kind, len(txns), counter=100 + 10 * txns + 6 * last, f=F.POLL, count=TXN_SENDS,
                      member=polls["process"] << ID_BITS, **polls, **common),
            make_rows(kind, len(txns), counter=107 + 10 * txns + last, f=F.COMMIT, member=polls["process"] << ID_BITS,
                      topic=TXN_TOPIC, partition=txns % TXN_PARTITIONS,
                      offset=(txns // TXN_PARTITIONS + 1) * (TXN_SENDS + 1) - 1, **commits, **common),
        ]  # fmt: skip

    def _records(self) -> list[Rows]:
        txns = self._committed
        polls = self._member(txns)
        repeated = {name: np.repeat(values, TXN_SENDS) for name, values in polls.items()}
        counter = np.repeat(101 + 10 * txns, TXN_SENDS) + np.tile(np.arange(TXN_SENDS), len(txns))
        made = [make_rows(Kind.RECORD, len(counter), counter=counter, status=Status.GOOD,
                          producer=TXN_PRODUCER + np.repeat(txns % TXN_PARTITIONS, TXN_SENDS),
                          **repeated, **self._read(txns))]  # fmt: skip
        for reader, chosen in ((TXN_FINAL, self._committed), (TXN_RAW, self._txns)):
            txns = chosen[np.argsort(chosen % TXN_PARTITIONS, kind="stable")]
            messages = self._read(txns)
            final = self._final(reader, messages["partition"])
            made.append(make_rows(Kind.RECORD, len(messages["value"]), status=Status.GOOD,
                                  producer=TXN_PRODUCER + messages["partition"],
                                  counter=100 + np.arange(len(messages["value"])), **final, **messages))  # fmt: skip
        return made

    def _final(self, reader: int, partitions: Numbers) -> dict[str, Any]:
        began = self.plan.final_ns + partitions * 2 * MS
        op = (reader << ID_BITS) + partitions
        return {"process": np.full(len(partitions), reader), "op": op, "invoked": began, "time": began + MS}

    def _finals(self, kind: Kind) -> list[Rows]:
        partitions = np.arange(TXN_PARTITIONS)
        end = self._end(partitions)
        return [
            make_rows(kind, TXN_PARTITIONS, counter=2 * partitions + (kind is Kind.COMPLETE), f=f, type=Type.OK,
                      topic=TXN_TOPIC, partition=partitions, offset=end, end=end, **self._final(reader, partitions))
            for reader, f in ((TXN_FINAL, F.FINAL), (TXN_RAW, F.RAW))
        ]  # fmt: skip

    def _phases(self) -> Rows:
        plan = self.plan
        times = {
            "load": START_NS,
            "heal": plan.end_ns,
            "recover": plan.end_ns + MS,
            "recovered": plan.end_ns + 2 * MS,
            "final": plan.final_ns - MS,
            "seal": plan.final_ns + (plan.messages // FINAL_POLL + 10) * MS,
        }
        return make_rows(Kind.PHASE, len(times), process=0, counter=np.arange(len(times)), time=list(times.values()),
                         name=[TEXT[name] for name in times])  # fmt: skip

    def _faults(self) -> Rows:
        injected, undone = self.plan.fault_ns
        stages = {FaultStage.INJECTED: injected, FaultStage.BIT: injected + MS, FaultStage.UNDONE: undone,
                  FaultStage.HEALED: undone + MS}  # fmt: skip
        return make_rows(Kind.FAULT, len(stages), process=NEMESIS_PROCESS, counter=np.arange(len(stages)), fault=1,
                         time=list(stages.values()), stage=list(stages), name=TEXT["leader-kill"], node=1, topic=TOPIC,
                         partition=0, leader=2, leader_epoch=1, detail=TEXT["leader 1 → 2 (epoch 0 → 1)"])  # fmt: skip
