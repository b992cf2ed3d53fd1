"""What exchanges of transactions and consumer groups say, as rows of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.foundation.protocol import Api
from harness.tap.recorded_requests import (
    NULL_16,
    NULL_32,
    NULL_64,
    ExchangeRow,
    RecordedExchange,
    Rows,
    error_of,
    known_16,
    known_32,
    known_64,
)


def init_producer_id(seen: RecordedExchange) -> Rows:
    """The producer id that was given; without one that which was asked for."""
    source = seen.request if seen.error else seen.response
    yield ExchangeRow(
        error=seen.error,
        producer_id=known_64(source.producer_id),
        producer_epoch=known_16(source.producer_epoch),
        detail=seen.detail(seen.request.transactional_id),
    )


def add_partitions_to_txn(seen: RecordedExchange) -> Rows:
    """A row per partition, of each transaction when there are several."""
    request, response = seen.request, seen.response
    if seen.exchange.version <= 3:  # one transaction until then
        identity = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        results = None if response is None else response.results_by_topic_v3_and_below
        yield from _added(seen, identity, request.v3_and_below_topics, results)
        return
    answers = {each.transactional_id: each.topic_results for each in (response.results_by_transaction or ())} if (
        response is not None
    ) else {}  # fmt: skip
    for each in request.transactions or ():
        identity = (each.transactional_id, each.producer_id, each.producer_epoch)
        yield from _added(seen, identity, each.topics, answers.get(each.transactional_id))


def _added(seen: RecordedExchange, identity: tuple[str, int, int], topics: Any, results: Any) -> Iterator[ExchangeRow]:
    name, producer_id, producer_epoch = identity
    errors = {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results or ()
        for each in topic.results_by_partition or ()
    }
    row = ExchangeRow(
        producer_id=known_64(producer_id), producer_epoch=known_16(producer_epoch), detail=seen.detail(name)
    )  # fmt: skip
    for topic in topics or ():
        for partition in topic.partitions or ():
            # a partition that the answer leaves out has the error of the whole answer
            error = errors.get((topic.name, partition), seen.error or NULL_16)
            yield row._replace(topic=seen.book.topic(topic.name), partition=partition, error=error)


def add_offsets_to_txn(seen: RecordedExchange) -> Rows:
    """One row."""
    yield _of_transaction(seen)._replace(detail=seen.detail(seen.request.transactional_id))


def end_txn(seen: RecordedExchange) -> Rows:
    """One row, with the producer as the request names it."""
    verb = "commit" if seen.request.committed else "abort"
    yield _of_transaction(seen)._replace(detail=seen.detail(f"{verb} {seen.request.transactional_id}"))


def _of_transaction(seen: RecordedExchange) -> ExchangeRow:
    request = seen.request
    return ExchangeRow(
        error=seen.error, producer_id=known_64(request.producer_id), producer_epoch=known_16(request.producer_epoch)
    )


def offset_commit(seen: RecordedExchange) -> Rows:
    """A row per partition."""
    generation = known_32(seen.request.generation_id_or_member_epoch)
    yield from _committed(seen, ExchangeRow(generation=generation, detail=seen.detail(seen.request.group_id)))


def txn_offset_commit(seen: RecordedExchange) -> Rows:
    """The same in a transaction."""
    row = _of_transaction(seen)._replace(
        generation=known_32(seen.request.generation_id), detail=seen.detail(seen.request.group_id)
    )
    yield from _committed(seen, row)


def _committed(seen: RecordedExchange, row: ExchangeRow) -> Iterator[ExchangeRow]:
    asked, told = seen.request_parts, seen.response_parts
    for key in asked | told:
        wanted = asked.get(key)
        offset = NULL_64 if wanted is None else wanted.committed_offset
        yield row._replace(
            topic=seen.book.topic(key[0]), partition=key[1], offset=offset, error=error_of(told.get(key))
        )  # fmt: skip
    if not asked and not told:
        yield row._replace(error=seen.error)


def offset_fetch(seen: RecordedExchange) -> Rows:
    """A row per partition, of each group when there are several; one for a group without any."""
    several = seen.exchange.version >= 8  # groups in a list since then
    answers = {}
    if seen.response is not None:
        holders = (seen.response.groups or ()) if several else (seen.response,)
        answers = {holder.group_id if several else seen.request.group_id: holder for holder in holders}
    for group in (seen.request.groups or ()) if several else (seen.request,):
        generation = known_32(group.member_epoch) if several else NULL_32
        row = ExchangeRow(generation=generation, detail=seen.detail(group.group_id))
        yield from _remembered(seen, row, group, answers.get(group.group_id))


def _remembered(seen: RecordedExchange, row: ExchangeRow, group: Any, answer: Any) -> Iterator[ExchangeRow]:
    names, found = seen.exchange.world.names, False
    row = row._replace(error=(seen.error or NULL_16) if answer is None else answer.error_code)
    for topic in (group if answer is None else answer).topics or ():
        number = seen.book.topic(names.of(topic, "name"))
        for at in (topic.partition_indexes if answer is None else topic.partitions) or ():
            found = True
            if answer is None:
                yield row._replace(topic=number, partition=at)
            else:
                error = at.error_code or row.error
                yield row._replace(topic=number, partition=at.partition_index, offset=at.committed_offset, error=error)
    if not found:
        yield row


def of_group(seen: RecordedExchange) -> Rows:
    """One row: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
    request, response, api = seen.request, seen.response, seen.exchange.api
    member, error = request.member_id, seen.error
    generation = getattr(response if api == Api.JOIN_GROUP else request, "generation_id", None)
    if api == Api.JOIN_GROUP and response is not None:
        member = response.member_id or member
    elif api == Api.LEAVE_GROUP:
        member = ",".join(each.member_id for each in request.members or ()) or member
        members = response.members or () if response is not None else ()
        error = error or next((each.error_code for each in members if each.error_code), error)
    yield ExchangeRow(error=error, generation=known_32(generation), detail=seen.detail(f"{request.group_id}/{member}"))


def consumer_group_heartbeat(seen: RecordedExchange) -> Rows:
    """One row: the epoch that the group gives the member; without an answer, or with an error, the member's own."""
    request, response = seen.request, seen.response
    told = request if response is None or seen.error else response
    yield ExchangeRow(
        error=seen.error,
        generation=known_32(told.member_epoch),
        detail=seen.detail(f"{request.group_id}/{told.member_id or request.member_id}"),
    )


OF_GROUPS: dict[int, Callable[[RecordedExchange], Rows]] = {
    Api.INIT_PRODUCER_ID: init_producer_id,
    Api.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    Api.END_TXN: end_txn,
    Api.OFFSET_COMMIT: offset_commit,
    Api.TXN_OFFSET_COMMIT: txn_offset_commit,
    Api.OFFSET_FETCH: offset_fetch,
    Api.JOIN_GROUP: of_group,
    Api.SYNC_GROUP: of_group,
    Api.HEARTBEAT: of_group,
    Api.LEAVE_GROUP: of_group,
    Api.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
}
