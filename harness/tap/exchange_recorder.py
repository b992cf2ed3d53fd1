"""Records exchanges as rows of the history.

An exchange is written when it is over, with what the client sent and what the client got. Its rows share one number
(`op`). Nothing that passes can stop this: a message that is none is one row that says so. Rows are gathered and written
many at a time, because all of this happens where the traffic has to wait for it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from harness.foundation.frame_skim import Garbled
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, KINDS, NO_CONNECTION, Kind, Type, now, row_struct, row_type
from harness.tap import codec
from harness.tap.codec import TopicNames
from harness.tap.exchange import Exchange
from harness.tap.recorded_groups import OF_GROUPS
from harness.tap.recorded_requests import (
    NULL_16,
    NULL_32,
    NULL_64,
    OF_LOGS,
    BatchRows,
    ExchangeRow,
    RecordedExchange,
    other,
)

OWN_TOPICS = 1 << 20  # numbers of topics that nobody has numbered begin here
TOPICS_AT_MOST = 10_000
NAME_CHARACTERS = 249  # Kafka has no longer names of topics
TEXT_CHARACTERS = 300
NOT_UNDERSTOOD = "passed through: not understood"

_ROWS = {**OF_LOGS, **OF_GROUPS}
_PACK = row_struct(Kind.EXCHANGE).pack
_ROW_TYPE = row_type(Kind.EXCHANGE)
_SHARED = KINDS[Kind.EXCHANGE][1 : -len(ExchangeRow._fields)]  # what all rows of an exchange have in common
assert KINDS[Kind.EXCHANGE] == ("event", *_SHARED, *ExchangeRow._fields)
_FROM_HEADERS = {
    "offset": "base_offset",
    "count": "count",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "sequence": "base_sequence",
    "crc": "crc",
}

Shared = tuple[int, ...]


class ExchangeRecorder:
    """Writes what passes to the history. The recorder stays open: who opened it closes it after `close`."""

    def __init__(self, recorder: Recorder, topics: Mapping[str, int], flush_rows: int = 1000) -> None:
        self.not_understood = 0
        self.unknown_apis = 0  # of those, requests of APIs that nobody here has a codec for
        self.disk_error: OSError | None = None  # rows could not be written: nothing here can be relied on
        self.names: TopicNames | None = None
        self._recorder = recorder
        self._given = topics
        self._numbers: dict[str, int] = {}
        self._own = OWN_TOPICS
        self._flush_rows = flush_rows
        self._bodies: list[bytes | bytearray] = []
        self._rows = 0

    def number(self) -> int:
        """A new number for an exchange."""
        return self._recorder.new_ops(1)

    def saw(self, exchange: Exchange, type_: Type, time_ns: int, detail: str = "") -> None:
        """An exchange is over."""
        try:
            self._see(exchange, type_, time_ns, detail)
        except OSError as error:
            self.disk_error = error

    def failed_connection(self, node: int, connection: int, detail: str) -> None:
        """A node could not be reached, or a connection with it broke."""
        time = now()
        null = NULL_32
        shared = (time, self._recorder.process, NULL_64, time, COLUMNS["type"].null, connection, null, node)
        try:
            row = ExchangeRow(error=NO_CONNECTION, detail=self.text(detail))
            self._keep((*shared, NULL_16, NULL_16, null), [row], "")
        except OSError as error:
            self.disk_error = error

    def flush(self) -> None:
        """Write what was gathered."""
        self._recorder.append(Kind.EXCHANGE, self._rows, b"".join(self._bodies))
        self._bodies, self._rows = [], 0

    def close(self) -> None:
        """Write what is left."""
        self.flush()

    def topic(self, name: str) -> int:
        """The number of a topic; null for one without a name, and when there are far too many."""
        name = self.names.told_apart(name) if self.names else name
        number = self._numbers.get(name)
        if number is None:
            name = name[:NAME_CHARACTERS]
            if not name or (name not in self._numbers and len(self._numbers) >= TOPICS_AT_MOST):
                return NULL_32
            number = self._numbers.get(name)
        if number is None:
            number = self._given.get(name)
            if number is None:
                number, self._own = self._own, self._own + 1
            self._numbers[name] = number
            self._recorder.topic(number, name)
        return number

    def text(self, text: str) -> int:
        """The number of a text; the end of a very long one is left out."""
        return self._recorder.text(text[:TEXT_CHARACTERS])

    def _see(self, exchange: Exchange, type_: Type, time_ns: int, detail: str) -> None:
        shared = self._shared(exchange, type_, time_ns)
        try:
            rows = self._seen(exchange, detail)
            self._keep(shared, rows, detail)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - what a stranger sends may not stop the tap
            self.not_understood += 1
            self._keep(shared, [ExchangeRow(detail=self.text(_why(error)))], detail)

    def _shared(self, exchange: Exchange, type_: Type, time_ns: int) -> Shared:
        header, bent = exchange.header, exchange.bent
        client, name = header.client, ",".join(bent) if bent else ""
        return (
            time_ns, self._recorder.process, exchange.number, exchange.invoked, int(type_), exchange.connection,
            self.text(client) if client else NULL_32, exchange.node, header.api, header.version,
            self.text(name) if name else NULL_32,
        )  # fmt: skip

    def _seen(self, exchange: Exchange, remark: str) -> list[ExchangeRow | BatchRows]:
        if not exchange.known:
            self.not_understood += 1
            self.unknown_apis += exchange.api not in codec.CODECS
            return [ExchangeRow(detail=self.text(NOT_UNDERSTOOD))]
        rows = _ROWS.get(exchange.api)
        if rows is None:
            return [other(exchange)]
        # a bend may have changed the request in place
        request = codec.decode_request(exchange.request_frame, exchange.header) if exchange.bent else exchange.request
        response = exchange.response if exchange.answered else None
        return list(rows(RecordedExchange(exchange, request, response, self, remark)))

    def _keep(self, shared: Shared, rows: list[ExchangeRow | BatchRows] | list[ExchangeRow], remark: str) -> None:
        bodies: list[bytes | bytearray] = []
        event = first = self._recorder.new_events(0)
        for each in rows:
            row = each.row if isinstance(each, BatchRows) else each
            if remark and row.detail == NULL_32:
                row = row._replace(detail=self.text(remark))
            bodies.append(_PACK(event, *shared, *row))
            event += 1
            if isinstance(each, BatchRows):
                bodies[-1] = _of_headers(bodies[-1], each)
                event += len(each.headers) - 1
        self._recorder.new_events(event - first)
        self._bodies += bodies
        self._rows += event - first
        if self._rows >= self._flush_rows:
            self.flush()


def _of_headers(body: bytes | bytearray, many: BatchRows) -> bytearray:
    """The row once for each header."""
    headers = many.headers
    repeated = bytearray(body) * len(headers)
    table = np.frombuffer(repeated, _ROW_TYPE)
    table["event"] += np.arange(len(headers))
    for column, field in _FROM_HEADERS.items():
        values = headers[field].astype(np.int64)
        if column == "crc":
            values = values.astype(np.int32).astype(np.int64)  # as a signed number
        unknown = (values < 0) & (column not in {"offset", "count", "crc"})
        table[column] = np.where(unknown, COLUMNS[column].null, values)
    return repeated


def _why(error: Exception) -> str:
    """Few different texts, whatever the garbage."""
    if isinstance(error, Garbled):
        return f"not understood: {str(error).split(' (', 1)[0]}"
    if isinstance(error, struct.error):
        return "not understood: a number that is too large"
    return f"not understood: {type(error).__name__}"
