"""Making a topic on whatever product: every node is asked in turn, then for less, then for none.

    1. CreateTopics with all settings, from each node
    2. without one of the settings, then without any: a product may not know them
    3. with as many replicas as the product likes, where there are nodes enough for those asked for
    4. auto-creation: Metadata that allows it, and CreatePartitions where the topic has too few
    5. nothing: the error says what each node answered, and how to go on with a topic that the user made

What was given up is returned in sentences. A node that does not answer CreateTopics in time is not asked for it again.
A topic that is there with partitions enough is a success, whatever was answered: answers get lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters.product_support import by_node
from harness.clusters.wire import METADATA_VERSION, NodeConnection, Versions, WireError, ask_versions
from harness.foundation.error_codes import NUMBERS, name_of
from harness.foundation.errors import ClusterError, one_line
from harness.foundation.protocol import CONSUMER_REPLICA, LATEST, Api, ErrorCode
from workloads.base import TopicSpec

CREATE_VERSION = 4  # the newest that is not flexible
PARTITIONS_VERSION = 0
DELETE_VERSION = 3  # the newest that is not flexible
OFFSETS_VERSION = 1
ASK_TIMEOUT_S = 5.0
CREATE_TIMEOUT_S = 6.0  # a little more than the node is given
REQUEST_TIMEOUT_MS = 5000
TRANSIENT_S = 5.0  # for a product that is still getting ready
AUTO_CREATION_S = 5.0
EVERY_S = 0.2
ANY_REPLICAS = -1
TRANSIENT = frozenset(
    NUMBERS[name]
    for name in (
        "NOT_CONTROLLER",
        "INVALID_REPLICATION_FACTOR",  # brokers may not have registered yet
        "LEADER_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "BROKER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
    )
)
THERE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
GONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Addressed(Protocol):
    """A node, as far as it matters here."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def address(self) -> str:
        """Where clients reach it."""


@dataclass(frozen=True)
class Request:
    """One way to ask for a topic, and what is given up by it."""

    config: Mapping[str, str]
    replicas: int
    given_up: str = ""


@dataclass
class TopicMaker:
    """Makes the topics of a run; what a product has refused once is not asked of it for the next topic."""

    nodes: Sequence[Addressed]
    prefix: str
    given_up: list[str] = field(default_factory=list)
    _silent: dict[int, str] = field(default_factory=dict)  # nodes that did not answer CreateTopics
    _said: dict[int, str] = field(default_factory=dict)  # what nodes answered last
    _codes: set[int] = field(default_factory=set)  # of the last round
    _first: int = 0  # of the ways to ask, the one that worked

    def make(self, topic: TopicSpec) -> None:
        """Make it, or say why it cannot be."""
        name = topic.full_name(self.prefix)
        ways = list(enumerate(requests_for(topic, len(self.nodes))))
        for number, way in ways[self._first :]:
            if self._create(name, topic.partitions, way, patient=number == 0):
                self._first = number
                self._give_up(name, way.given_up)
                return
            if len(self._silent) == len(self.nodes):
                break
        if self._too_few_nodes(topic):
            raise ClusterError(
                f"the topic {name} cannot have {topic.replication_factor} replicas on {len(self.nodes)} nodes",
                "lower replication_factor and min_insync_replicas, or run it on more nodes",
            )
        if self._auto_create(name, topic.partitions):
            left = ", ".join(["replication_factor", *sorted(topic.config)])
            self._give_up(name, f"it was auto-created, so that {left} are the product's own")
            return
        raise ClusterError(
            f"no node creates the topic {name} ({by_node(self._said.items())})",
            f"create it yourself, with {topic.partitions} partitions, and say `topic = {self.prefix}`",
        )

    def _too_few_nodes(self, topic: TopicSpec) -> bool:
        said = {NUMBERS["INVALID_REPLICATION_FACTOR"]}
        return self._codes == said and len(self.nodes) < topic.replication_factor

    def _give_up(self, name: str, what: str) -> None:
        if what:
            self.given_up.append(f"topic {name}: {what} ({by_node(self._said.items())})" if self._said else what)

    def _create(self, name: str, partitions: int, way: Request, *, patient: bool) -> bool:
        """Ask every node for it in this way, for a while where nodes may only not be ready."""
        deadline_s = time.monotonic() + TRANSIENT_S
        while True:
            if self._asked_all(name, partitions, way):
                return True
            if not (patient and self._codes and self._codes <= TRANSIENT) or time.monotonic() > deadline_s:
                return self._silent != {} and self._is_there(name, partitions)
            time.sleep(EVERY_S)

    def _asked_all(self, name: str, partitions: int, way: Request) -> bool:
        self._codes = set()
        for node in self.nodes:
            if node.id in self._silent:
                continue
            try:
                code, text = ask_creation(node.address, name, partitions, way)
            except WireError as error:
                self._silent[node.id] = self._said[node.id] = one_line(error)
                continue
            if code in THERE:
                return True
            self._codes.add(code)
            self._said[node.id] = f"{name_of(code)}{f', {text}' if text else ''}"
        return False

    def _auto_create(self, name: str, partitions: int) -> bool:
        """Have each node create it by asking for it, and give it as many partitions as are needed."""
        deadline_s = time.monotonic() + AUTO_CREATION_S
        while True:
            counts = [count for node in self.nodes if (count := partitions_at(node.address, name, create=True))]
            if counts and max(counts) >= partitions:
                return True
            if counts and any(grown(node.address, name, partitions) for node in self.nodes):
                return True
            if time.monotonic() > deadline_s:
                return False
            time.sleep(EVERY_S)

    def _is_there(self, name: str, partitions: int) -> bool:
        return any(partitions_at(node.address, name) >= partitions for node in self.nodes)


def requests_for(topic: TopicSpec, nodes: int) -> Iterator[Request]:
    """The ways to ask for a topic, from all that is wanted to the least."""
    config, replicas = topic.config, topic.replication_factor
    yield Request(config, replicas)
    for name in config if len(config) > 1 else ():
        rest = {other: value for other, value in config.items() if other != name}
        yield Request(rest, replicas, f"the setting {name} was refused")
    names = ", ".join(config)
    if config:
        yield Request({}, replicas, f"the settings {names} were refused")
    if nodes >= replicas:
        others = f" and the settings {names}" if config else ""
        yield Request({}, ANY_REPLICAS, f"replication_factor={replicas}{others} were refused")


def ask_creation(address: str, name: str, partitions: int, way: Request) -> tuple[int, str]:
    """What one node says to one request for a topic: Kafka's error code and the first line of its text."""
    version = fitting(address, Api.CREATE_TOPICS, CREATE_VERSION)
    if version is None:
        return NUMBERS["UNSUPPORTED_VERSION"], "CreateTopics is not offered"
    one = CreateTopicsRequest.CreatableTopic
    wanted = one(
        name=name,
        num_partitions=partitions,
        replication_factor=way.replicas,
        assignments=[],
        configs=[one.CreatableTopicConfig(name=key, value=value) for key, value in sorted(way.config.items())],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
    answer = _ask(address, lambda it: it.ask(request, CreateTopicsResponse, version), CREATE_TIMEOUT_S)
    for each in answer.topics or ():
        text = " ".join((getattr(each, "error_message", None) or "").split())
        return int(each.error_code), text[:100]
    raise WireError(f"{address} answers CreateTopics without a word on the topic")


def partitions_at(address: str, name: str, *, create: bool = False) -> int:
    """How many partitions of a topic one node lists; 0 when it does not answer, or does not know the topic."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=create
    )
    try:
        answer = _ask(address, lambda connection: connection.ask(request, MetadataResponse, METADATA_VERSION))
    except WireError:
        return 0
    return max((len(topic.partitions or ()) for topic in answer.topics or () if topic.name == name), default=0)


def names_at(address: str) -> list[str]:
    """All topics that one node lists; none when it does not answer."""
    try:
        answer = _ask(address, lambda it: it.ask(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION))
    except WireError:
        return []
    return [topic.name for topic in answer.topics or () if topic.name and not topic.error_code]


def refused_deletion(address: str, names: Sequence[str]) -> str:
    """Why one node does not delete these topics; empty when they are gone."""
    version = fitting(address, DeleteTopicsRequest.API_KEY, DELETE_VERSION)
    if version is None:
        return "DeleteTopics is not offered"
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        answer = _ask(address, lambda connection: connection.ask(request, DeleteTopicsResponse, version))
    except WireError as error:
        return one_line(error)
    codes = [each.error_code for each in answer.responses or ()]
    return next((name_of(code) for code in codes if code not in GONE), "" if codes else "no word on the topics")


def holds_records(address: str, name: str, partitions: int) -> bool:
    """Whether a partition of the topic has an end that is not 0, as far as this node leads it and says so."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    parts = [topic.ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=CONSUMER_REPLICA, topics=[topic(name=name, partitions=parts)])
    try:
        answer = _ask(address, lambda connection: connection.ask(request, ListOffsetsResponse, OFFSETS_VERSION))
    except WireError:
        return False
    found = [part for each in answer.topics or () for part in each.partitions or ()]
    return any(part.offset > 0 and not part.error_code for part in found)


def grown(address: str, name: str, partitions: int) -> bool:
    """Whether one node gives a topic that many partitions."""
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
    try:
        answer = _ask(address, lambda it: it.ask(request, CreatePartitionsResponse, PARTITIONS_VERSION))
    except WireError:
        return False
    return all(not each.error_code for each in answer.results or ()) and bool(answer.results)


def fitting(address: str, api: int, wanted: int) -> int | None:
    """The version of an API to use with a node: the one wanted, or the nearest offered; None where none is."""
    try:
        versions: Versions = ask_versions(address, ASK_TIMEOUT_S)
    except WireError:
        return wanted  # it may understand it all the same
    if api not in versions:
        return None
    oldest, newest = versions[api]
    return min(max(wanted, oldest), newest)


def _ask(address: str, ask: Callable[[NodeConnection], Any], timeout_s: float = ASK_TIMEOUT_S) -> Any:
    with NodeConnection(address, timeout_s) as connection:
        return ask(connection)
