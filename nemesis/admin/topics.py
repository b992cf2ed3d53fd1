"""Requests about topics and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters.base import Cluster
from harness.clusters.wire import NodeConnection
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import REQUEST_TIMEOUT_MS, Call, Said, ask_all, until_done

ALTER_SETTINGS_VERSION = 0
SETTINGS_VERSION = 1
CREATE_VERSION = 5
DELETE_VERSION = 5
PARTITIONS_VERSION = 2
TOPIC_ID_VERSION = 12
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
OF_THE_TOPIC = 1  # where a setting comes from: it was given for this topic, while the cluster runs or at its creation


@dataclass(frozen=True)
class TopicSetting:
    """A setting of a topic, as one node tells it."""

    value: str
    own: bool  # given for this topic, and not a default


def settings_of(cluster: Cluster, topic: str) -> dict[str, TopicSetting]:
    """All settings of a topic, by the word of the first node that answers."""
    found: dict[str, TopicSetting] = {}

    def call(connection: NodeConnection) -> list[Said]:
        answer = connection.ask(_describe(topic, None), DescribeConfigsResponse, SETTINGS_VERSION)
        found.update(_settings(answer))
        return [(result.error_code, result.error_message) for result in answer.results]

    until_done(cluster, f"asking for the settings of {topic}", call, {ErrorCode.NONE})
    return found


def setting_by_node(cluster: Cluster, topic: str, name: str) -> dict[int, TopicSetting]:
    """One setting of a topic, by the word of each node that answers."""
    answers = ask_all(cluster, lambda: _describe(topic, [name]), DescribeConfigsResponse, SETTINGS_VERSION)
    told = {node: _settings(answer) for node, answer in answers.items()}
    return {node: settings[name] for node, settings in told.items() if name in settings}


def setting(topic: str, name: str, value: str | None) -> Call:
    """The request to give a topic a setting of its own; or, without a value, to take it back."""

    def call(connection: NodeConnection) -> list[Said]:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        config = resource.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])],
            validate_only=False,
        )
        answer = connection.ask(request, IncrementalAlterConfigsResponse, ALTER_SETTINGS_VERSION)
        return [(each.error_code, each.error_message) for each in answer.responses]

    return call


def more_partitions(topic: str, count: int) -> Call:
    """The request for that many partitions in all."""

    def call(connection: NodeConnection) -> list[Said]:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        answer = connection.ask(request, CreatePartitionsResponse, PARTITIONS_VERSION)
        return [(each.error_code, each.error_message) for each in answer.results]

    return call


def deletion(topic: str) -> Call:
    """The request to delete a topic."""

    def call(connection: NodeConnection) -> list[Said]:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        answer = connection.ask(request, DeleteTopicsResponse, DELETE_VERSION)
        return [(each.error_code, each.error_message) for each in answer.responses]

    return call


def creation(topic: str, replicas: Mapping[int, tuple[int, ...]], settings: Mapping[str, str]) -> Call:
    """The request to create a topic with these replicas of each partition, and with settings of its own."""

    def call(connection: NodeConnection) -> list[Said]:
        one = CreateTopicsRequest.CreatableTopic
        wanted = one(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                one.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
                for index, nodes in sorted(replicas.items())
            ],
            configs=[one.CreatableTopicConfig(name=name, value=value) for name, value in sorted(settings.items())],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        answer = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
        return [(each.error_code, each.error_message) for each in answer.topics]

    return call


def topic_ids(cluster: Cluster, topic: str) -> dict[int, str | None]:
    """The id of the topic by each node that answers; None from a node that does not know the topic."""

    def make() -> Any:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )

    answers = ask_all(cluster, make, MetadataResponse, TOPIC_ID_VERSION)
    return {
        node: next((str(each.topic_id) for each in answer.topics if not each.error_code), None)
        for node, answer in answers.items()
    }


def _describe(topic: str, names: list[str] | None) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=names
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False)


def _settings(answer: Any) -> dict[str, TopicSetting]:
    return {
        config.name: TopicSetting(config.value or "", config.config_source == OF_THE_TOPIC)
        for result in answer.results
        if not result.error_code
        for config in result.configs
    }
