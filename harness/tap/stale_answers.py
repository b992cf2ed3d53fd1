"""First answers of nodes, given again later: by the node and the bytes of the request."""

from __future__ import annotations

from typing import Any

from harness.tap import codec
from harness.tap.exchange import Exchange

ANSWERS_AT_MOST = 1_000
BYTES_AT_MOST = 16 * 1024 * 1024  # of questions and answers

Question = tuple[int, int, int, bytes]  # node, API, version, body


class FirstAnswers:
    """The first answer to each question; when there are too many of them, later questions are new every time."""

    def __init__(self) -> None:
        self._answers: dict[Question, bytes] = {}
        self._bytes = 0

    def learn(self, exchange: Exchange) -> None:
        """The node answered; `Garbled` when that is no answer."""
        question, answer = _question(exchange), exchange.response_frame
        if answer is None or question in self._answers or len(self._answers) >= ANSWERS_AT_MOST:
            return
        size = len(question[-1]) + len(answer)
        if self._bytes + size <= BYTES_AT_MOST:
            codec.decode_response(answer, exchange.api, exchange.version)
            self._answers[question] = answer
            self._bytes += size

    def recall(self, exchange: Exchange) -> Any | None:
        """What the node told when it was asked the same for the first time, if it was."""
        answer = self._answers.get(_question(exchange))
        return None if answer is None else codec.decode_response(answer, exchange.api, exchange.version)


def _question(exchange: Exchange) -> Question:
    return exchange.node, exchange.api, exchange.version, exchange.request_frame[exchange.header.body :]
