"""Fetch sessions: inside one, a Fetch lists only what has changed, so whoever has to know its partitions ends it."""

from __future__ import annotations

from harness.foundation.protocol import NO_SESSION, OPENS_SESSION, Api, ErrorCode
from harness.tap.effects import NOTHING, UNNOTICED, Answer, Effects
from harness.tap.exchange import Exchange

SESSIONS_SINCE = 7  # version of Fetch


def sessionless(exchange: Exchange) -> Effects:
    """Have a Fetch list all its partitions, whatever the client and the broker agreed on before.

    A client that opens a session gets none. One that is in the middle of one is told that the broker forgot it, as
    brokers do, and begins anew: what it leaves out of such a request nobody here knows.
    """
    if exchange.api != Api.FETCH or exchange.version < SESSIONS_SINCE:
        return NOTHING
    request = exchange.request
    if request.session_epoch > OPENS_SESSION:
        response = exchange.empty_response()
        response.error_code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return (Answer(response),)
    if request.session_epoch == OPENS_SESSION:
        request.session_epoch = NO_SESSION  # with the id it has: a session of before is closed by this
        return (UNNOTICED,)
    return NOTHING
