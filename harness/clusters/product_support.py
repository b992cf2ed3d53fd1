"""What a product can do, found out by asking: the APIs that every node offers, and an answer to each admin call.

Every node is asked on a connection of its own, all nodes at once, and each call has a time limit: a node that never
answers one API costs seconds, not the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness.clusters.admin_calls import CALLS, AdminCall
from harness.clusters.node import Node
from harness.clusters.wire import NodeConnection, Versions, WireError, ask_versions
from harness.foundation.error_codes import NUMBERS, name_of
from harness.foundation.errors import one_line

TIMEOUT_S = 3.0
THREADS = 16
REFUSALS = frozenset(
    NUMBERS[name]
    for name in (
        "UNSUPPORTED_VERSION",
        "INVALID_REQUEST",
        "NOT_CONTROLLER",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "SECURITY_DISABLED",
        "UNKNOWN_SERVER_ERROR",
        "TOPIC_DELETION_DISABLED",
    )
)  # that say that a node does not do it; any other error is an answer to a request about nobody's topic


@dataclass(frozen=True)
class CallOutcome:
    """What came of one call to one node."""

    works: bool
    detail: str  # a few words for a table

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"works": self.works, "detail": self.detail}


@dataclass(frozen=True)
class ProductSupport:
    """What all nodes can do, by call and node."""

    outcomes: Mapping[str, Mapping[int, CallOutcome]]

    def missing(self, call: str) -> str:
        """Why no node does this; empty when one does, or when nobody was asked."""
        found = self.outcomes.get(call, {})
        if not found or any(outcome.works for outcome in found.values()):
            return ""
        return f"no node does {call} ({by_node((node, each.detail) for node, each in found.items())})"

    def as_json(self) -> dict[str, Any]:
        """For run.json: only what is missing somewhere."""
        return {
            call: {str(node): outcome.detail for node, outcome in found.items() if not outcome.works}
            for call, found in self.outcomes.items()
            if not all(outcome.works for outcome in found.values())
        }


def find_out(nodes: Sequence[Node], calls: Iterable[str] | None = None, timeout_s: float = TIMEOUT_S) -> ProductSupport:
    """Ask every node; all calls unless some are named."""
    wanted = [call for call in CALLS if calls is None or call.name in set(calls)]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="support") as pool:
        by_place = list(pool.map(lambda node: dict(_of_node(node.address, wanted, timeout_s)), nodes))
    return ProductSupport(
        {call.name: {node.id: found[call.name] for node, found in zip(nodes, by_place, strict=True)} for call in wanted}
    )


def by_node(said: Iterable[tuple[int, str]]) -> str:
    """What nodes say, in one line; those that say the same are named together."""
    nodes: dict[str, list[int]] = {}
    for node, text in said:
        nodes.setdefault(text, []).append(node)
    return "; ".join(f"node {', '.join(map(str, who))}: {text}" for text, who in nodes.items())


def _of_node(address: str, calls: Sequence[AdminCall], timeout_s: float) -> Iterator[tuple[str, CallOutcome]]:
    try:
        versions: Versions | None = ask_versions(address, timeout_s)
    except WireError:
        versions = None  # it may do them all the same
    for call in calls:
        yield call.name, _try(address, call, versions, timeout_s)


def _try(address: str, call: AdminCall, versions: Versions | None, timeout_s: float) -> CallOutcome:
    if versions is not None:
        if call.api not in versions:
            return CallOutcome(works=False, detail="not offered")
        oldest, newest = versions[call.api]
        if not oldest <= call.version <= newest:
            said = f"offers versions {oldest} to {newest}, {call.version} is needed"
            return CallOutcome(works=False, detail=said)
    try:
        with NodeConnection(address, timeout_s) as connection:
            answer = connection.ask(call.make(), call.response, call.version)
    except WireError as error:
        return CallOutcome(works=False, detail=one_line(error))
    codes = [code for code in _codes(answer.to_dict()) if code]
    if refused := next((code for code in codes if code in REFUSALS), 0):
        return CallOutcome(works=False, detail=name_of(refused))
    return CallOutcome(works=True, detail=f"yes ({name_of(codes[0])})" if codes else "yes")


def _codes(value: Any) -> Iterator[int]:
    """All error codes of an answer, wherever they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "error_code":
                yield int(inner)
            else:
                yield from _codes(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _codes(inner)
