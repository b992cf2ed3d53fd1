"""Responses that no broker gave: parts of an answer, and errors for a whole request."""

from __future__ import annotations

from typing import Any

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import REQUESTS, RESPONSES, RequestHeader

NO_ANSWER: dict[int, dict[str, Any]] = {
    Api.PRODUCE: {"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
    Api.FETCH: {
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "preferred_read_replica": -1,
        "aborted_transactions": None,
        "records": b"",  # null is legal, but librdkafka does not take it
    },
    Api.LIST_OFFSETS: {"timestamp": -1, "offset": -1, "leader_epoch": -1},
}


def topic_key(topic: Any, name_field: str) -> dict[str, Any]:
    """How a message names a topic: by its name, its id, or both."""
    key = {name_field: getattr(topic, name_field, None), "topic_id": getattr(topic, "topic_id", None)}
    return {field: value for field, value in key.items() if value}


def add_part(response: Any, header: RequestHeader, key: dict[str, Any], partition: int, fields: dict[str, Any]) -> None:
    """Put one partition into a response of Produce, Fetch, ListOffsets or OffsetCommit."""
    api, version = header.api, header.version
    layout = RESPONSES[Api(api)]
    request_layout = REQUESTS[Api(api)]
    if request_layout.name in key and layout.name != request_layout.name:
        key = {**key, layout.name: key[request_layout.name]}
        del key[request_layout.name]
    topic_class = type(response)._struct.fields[layout.topics].data_class  # noqa: SLF001 - no public way to it
    part_class = topic_class._struct.fields[layout.partitions].data_class  # noqa: SLF001
    known = part_class._struct.fields  # noqa: SLF001
    part = part_class(version=version)
    for field, value in {**NO_ANSWER.get(api, {}), "error_code": 0, **fields, layout.index: partition}.items():
        if field in known and known[field].for_version_q(version):
            setattr(part, field, value)
    topics = getattr(response, layout.topics) or ()
    for topic in topics:
        if all(getattr(topic, field) == value for field, value in key.items()):
            setattr(topic, layout.partitions, [*(getattr(topic, layout.partitions) or ()), part])
            return
    wanted = topic_class._struct.fields  # noqa: SLF001
    topic = topic_class(version=version, **{k: v for k, v in key.items() if wanted[k].for_version_q(version)})
    setattr(topic, layout.partitions, [part])
    setattr(response, layout.topics, [*topics, topic])


def whole_error(request: Any, header: RequestHeader, response: Any, code: int) -> Any:
    """For requests that are answered as a whole."""
    if header.api == Api.FIND_COORDINATOR and header.version >= 4:  # keys in a list since then
        coordinator = type(response)._struct.fields["coordinators"].data_class  # noqa: SLF001
        response.coordinators = [
            coordinator(version=header.version, key=key, node_id=-1, host="", port=-1, error_code=code)
            for key in request.coordinator_keys
        ]
        return response
    if header.api == Api.METADATA:
        topic_class = type(response)._struct.fields["topics"].data_class  # noqa: SLF001
        response.brokers = []
        response.topics = [
            topic_class(version=header.version, error_code=code, name=topic.name, topic_id=topic.topic_id,
                        is_internal=False, partitions=[])
            for topic in request.topics or ()
        ]  # fmt: skip
        return response
    field = type(response)._struct.fields.get("error_code")  # noqa: SLF001
    if field is None or not field.for_version_q(header.version):
        name = codec.CODECS[header.api].name
        raise Garbled(f"version {header.version} of {name} cannot be answered with an error")
    response.error_code = code
    return response
