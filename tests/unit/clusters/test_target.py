"""Targets: files, versions, checks and placeholders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.jars import locked_versions
from harness.clusters.target import ReadyCheck, Target, is_understood, load_target, write_inside
from harness.clusters.template import NodePlan, placeholders, render
from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.foundation.paths import PACKAGE

PLANS = [
    NodePlan(n, host=f"h{n}", bind="0.0.0.0", client_host=f"c{n}", ports={"client": 100 + n, "rpc": 200 + n})
    for n in (1, 2, 3)
]
MINIMAL: dict[str, Any] = {"name": "thing", "process": {"command": ["thing"]}}


def test_the_shipped_target_loads() -> None:
    """Apache Kafka is a target like any other: three nodes, three ports each, as processes or containers."""
    target = load_target("kafka")
    assert (target.name, target.nodes, target.kafka_port) == ("kafka", 3, "client")
    assert target.process
    assert target.container
    assert target.java
    assert target.ready_check == ReadyCheck("kafka", 120)
    assert target.version in locked_versions("kafka")
    assert f"org.apache.kafka:kafka_2.13:{target.version}" in target.coordinates()


@pytest.mark.parametrize("name", sorted(path.stem for path in (PACKAGE / "clusters" / "targets").glob("*.toml")))
def test_the_shipped_targets_render(name: str) -> None:
    """Every text of a shipped target can be filled for every node, and nothing is left standing."""
    target = load_target(name)
    names = (
        "node_dir",
        "cluster_id",
        "directory_id",
        "version",
        "java",
        "classpath",
        "class_archive",
        "helper.host",
        "helper.port",
    )
    extra = dict.fromkeys(names, "x")
    plans = [NodePlan(n, "h", "b", "c", dict.fromkeys(target.ports, n)) for n in range(1, target.nodes + 1)]
    parts = [part for part in (target.process, target.container, target.helper) if part]
    texts = [text for part in parts for text in (*part.files.values(), *part.command)]
    texts += [text for part in (target.process, target.container) if part for text in part.env.values()]
    assert texts
    for plan in plans:
        values = placeholders(plans, plan.node_id, extra)
        assert not [text for text in texts if re.search(r"[{}]", render(text, values, "kafka"))]


@pytest.mark.parametrize(
    ("asked", "full"), [("4.1", "4.1.2"), ("3.9", "3.9.2"), ("4.1.2", "4.1.2"), ("4.1.0", "4.1.0")]
)
def test_a_version_is_completed(asked: str, full: str) -> None:
    """Two numbers mean the newest such version with a lock; three mean exactly that one."""
    target = load_target("kafka", asked)
    assert target.version == full
    assert all(full in c for c in target.coordinates() if c.startswith("org.apache.kafka"))


@pytest.mark.parametrize(
    ("asked", "name", "full"),
    [("2.4.1", "kafka-zookeeper", "2.4.1"), ("2.1", "kafka-zookeeper", "2.1.1"), ("3.2.3", "kafka-zookeeper", "3.2.3"),
     ("3.3.0", "kafka", "3.3.0"), ("3.3", "kafka", "3.3"), ("3.10.0", "kafka", "3.10.0")],
)  # fmt: skip
def test_versions_before_the_first_one_are_another_target(asked: str, name: str, full: str) -> None:
    """By number and not by letter; whoever asks need not know of it."""
    target = load_target("kafka", asked)
    assert (target.name, target.version) == (name, full)


def test_brokers_of_old_versions_run_on_an_old_java() -> None:
    """And beside ZooKeeper; versions that we ship are locked."""
    target = load_target("kafka-zookeeper")
    assert target.java
    assert target.helper
    assert (target.java.minimum, target.java.maximum, target.helper.name) == (11, 11, "zookeeper")
    assert target.version in locked_versions("kafka-zookeeper")
    assert not set(locked_versions("kafka")) & set(locked_versions("kafka-zookeeper"))


def test_a_target_may_extend_another(tmp_path: Path) -> None:
    """It has all of that one, its own keys win, and text is added to files; so it has the name and the locks, too."""
    file = tmp_path / "mine.toml"
    file.write_text('extends = "kafka"\nnodes = 5\n[append]\n"server.properties" = "num.io.threads=9"\n')
    target, base = load_target(str(file)), load_target("kafka")
    assert target.process
    assert base.process
    assert (target.name, target.nodes, target.version) == ("kafka", 5, base.version)
    added = target.process.files["server.properties"]
    assert added == base.process.files["server.properties"].rstrip() + "\nnum.io.threads=9\n"
    assert target.process.files["data/meta.properties"] == base.process.files["data/meta.properties"]


def test_text_is_added_to_files_that_are_there(tmp_path: Path) -> None:
    """A misspelled name would else change nothing, in silence."""
    file = tmp_path / "mine.toml"
    file.write_text('extends = "kafka"\n[append]\n"server.propertys" = "x=1"\n')
    with pytest.raises(UsageError, match=r"has no file 'server.propertys': did you mean 'server.properties'"):
        load_target(str(file))


@pytest.mark.parametrize("asked", ["", "four", "4", "4.", "4.1.x", "latest", "../../etc", "4.1 ", "-4.1", "4.1.2\n"])
def test_a_nonsense_version_is_refused(asked: str) -> None:
    """What is not a version is refused with an example of what is."""
    with pytest.raises(UsageError, match=r"is not a version: write it like \d+\.\d+\.\d+"):
        load_target("kafka", asked)


def test_no_version_for_a_target_without_java(tmp_path: Path) -> None:
    """--kafka-version says nothing about a product whose file says how it is started."""
    file = tmp_path / "thing.toml"
    file.write_text('name = "thing"\n[process]\ncommand = ["thing"]\n')
    assert load_target(str(file)).version == "unknown"
    with pytest.raises(UsageError, match="--kafka-version does not apply to the target 'thing'"):
        load_target(str(file), "4.1")


def test_an_unknown_target_is_named() -> None:
    """A misspelled name gets the right one."""
    with pytest.raises(UsageError, match="no target 'kafka5': did you mean 'kafka'"):
        load_target("kafka5")


@pytest.mark.parametrize("path", ["./nowhere", "nowhere.toml"])
def test_a_path_is_not_a_name(path: str) -> None:
    """Whatever looks like a path is taken as one."""
    with pytest.raises(UsageError, match="there is no file"):
        load_target(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"process": None}, r"needs a \[process\] or a \[container\]"),
        ({"java": {"jars": ["a:b:c"], "minimum": 17, "maximum": 11}}, "no Java is at least 17 and at most 11"),
        (
            {"process": None, "container": {"image": "b"}, "helper": {"name": "z", "command": ["z"]}},
            "serves nodes that are processes",
        ),
        ({"container": {}}, "either 'compose' or 'image'"),
        ({"container": {"compose": "docker-compose.yml", "image": "b"}}, "either 'compose' or 'image'"),
        ({"container": {"compose": "a"}}, r"'container\.compose' cannot be"),
        ({"container": {"compose": "../docker-compose.yml"}}, r"'container\.compose' cannot be"),
        ({"container": {"image": ""}}, r"'container\.image' cannot be"),
        ({"container": {"image": "b", "command": ["a\x00b"]}}, r"'container\.command\.0' cannot be"),
        ({"container": {"image": "b", "env": {"A=B": "x"}}}, r"'container\.env"),
        ({"container": {"image": "b", "env": {"A": "x\x00"}}}, r"'container\.env"),
        ({"process": {"command": ["x", "a\x00b"]}}, r"'process\.command\.1' cannot be"),
        ({"process": {"command": ["x"], "env": {"": "x"}}}, r"'process\.env"),
        ({"process": {"command": ["x"], "env": {"A=B": "x"}}}, r"'process\.env"),
        ({"process": {"command": ["x"], "env": {"A\x00": "x"}}}, r"'process\.env"),
        ({"process": {"command": ["x"], "env": {"A": "\x00"}}}, r"'process\.env"),
        ({"version": ""}, "'version' cannot be"),
        ({"version": "../up"}, "'version' cannot be"),
        ({"version": "1/2"}, "'version' cannot be"),
        ({"version": "-1"}, "'version' cannot be"),
        ({"version": "1 2"}, "'version' cannot be"),
        ({"version": "1\n"}, "'version' cannot be"),
        ({"version": "1\x00"}, "'version' cannot be"),
        ({"client_port": "nope"}, "client_port 'nope' is not one of the ports"),
        ({"logs": {"leader": "(unclosed"}}, "pattern of 'leader' is not a regular expression"),
        ({"logs": {"leader": "(?<=epoch )[0-9]+"}}, "pattern of 'leader' has what the engine that reads logs"),
        ({"logs": {"leader": r"(?P<topic>.)(?P=topic)"}}, "pattern of 'leader' has what the engine that reads logs"),
        ({"logs": {"leader": r"(.)\1"}}, "pattern of 'leader' has what the engine that reads logs"),
        ({"name": "Has Space"}, "'name' cannot be"),
        ({"name": "../up"}, "'name' cannot be"),
        ({"nodes": 0}, "'nodes' cannot be"),
        ({"nodes": 10}, "'nodes' cannot be"),
        ({"ready": "maybe"}, "'ready' cannot be"),
        ({"ready_timeout_s": 0}, "'ready_timeout_s' cannot be"),
        ({"process": {"command": []}}, r"'process\.command' cannot be"),
        ({"process": {"comand": ["x"]}}, r"unknown key 'process\.comand': did you mean 'command'"),
    ],
)
def test_a_wrong_target_is_refused(changes: dict[str, Any], said: str) -> None:
    """Every rule of a target file is an error with its place."""
    with pytest.raises(UsageError, match=said):
        parse(Target, MINIMAL | changes, "thing.toml")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ports": []}, id="no port"),
        pytest.param({"java": {"jars": ["group:artifact"]}}, id="coordinate without version"),
    ],
)
def test_a_target_that_cannot_work_is_refused(changes: dict[str, Any]) -> None:
    """What would fail in any case later fails when the file is read."""
    with pytest.raises(UsageError):
        parse(Target, MINIMAL | changes, "thing.toml")


@pytest.mark.parametrize("version", ["unknown", "4.3.1", "1.0.0-rc1", "2024.1+build_7", "v1"])
def test_versions_of_all_products_are_taken(version: str) -> None:
    """Whatever can be a part of a file's name."""
    assert parse(Target, MINIMAL | {"version": version}, "thing.toml").version == version


def test_words_of_a_command_may_hold_anything_else() -> None:
    """Lines, blanks, equal signs, and nothing at all."""
    words = ("sh", "-c", "a\nb=c", "", "ü")
    part = {"command": words, "env": {"A.b-c": "x=y\nz", "B": ""}}
    process = parse(Target, MINIMAL | {"process": part}, "thing.toml").process
    assert process
    assert process.command == words
    assert process.env == part["env"]


@pytest.mark.parametrize("name", ["file", "deep/down/file", "deep/../file", "./file"])
@pytest.mark.parametrize("content", ["tëxt", b"\x00\xff"])
def test_a_file_is_written_inside(tmp_path: Path, name: str, content: str | bytes) -> None:
    """Text as UTF-8, bytes as they are, with the directories it needs."""
    write_inside(tmp_path / "node", name, content)
    expected = content.encode() if isinstance(content, str) else content
    assert (tmp_path / "node" / name.replace("deep/../", "")).read_bytes() == expected


@pytest.mark.parametrize("name", ["../file", "a/../../file", "/nowhere/tidegauge/file", "link/file"])
def test_a_file_outside_is_refused(tmp_path: Path, name: str) -> None:
    """Up, absolute or through a link: nothing is written."""
    node, outside = tmp_path / "node", tmp_path / "outside"
    node.mkdir()
    outside.mkdir()
    (node / "link").symlink_to(outside)
    with pytest.raises(UsageError, match=f"the file '{name}' of the target lies outside the node's directory"):
        write_inside(node, name, "x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_first_port_serves_clients_unless_told() -> None:
    """Without client_port it is the first one; the default is one port named kafka."""
    assert parse(Target, MINIMAL, "thing.toml").kafka_port == "kafka"
    assert parse(Target, MINIMAL | {"ports": ["rpc", "client"]}, "thing.toml").kafka_port == "rpc"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{node_id} {host} {bind} {client_host} {version}", "2 h2 0.0.0.0 c2 9.9"),
        ("{port.client}:{port.rpc}", "102:202"),
        ("{nodes.rpc}", '["h1:201", "h2:202", "h3:203"]'),
        ("{peers.rpc}", '["h1:201", "h3:203"]'),
        ("{nodes.client:csv}|{peers.client:csv}", "h1:101,h2:102,h3:103|h1:101,h3:103"),
        ("{nodes.rpc:voters}", "1@h1:201,2@h2:202,3@h3:203"),
        ("{{node_id}}", "{node_id}"),
        ("{{{node_id}}}", "{2}"),
        ('{{"a": {{"b": {node_id}}}}}', '{"a": {"b": 2}}'),
        ("{odd}", "{node_id}"),
        ("", ""),
        ("{ } { node_id } {}", "{ } { node_id } {}"),
    ],
)
def test_placeholders_are_filled(text: str, rendered: str) -> None:
    """Each placeholder once, doubled braces as plain ones, and nothing inside what was filled in."""
    values = placeholders(PLANS, 2, {"version": "9.9", "odd": "{node_id}"})
    assert render(text, values, "x") == rendered


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{node_di}", r"unknown placeholder \{node_di\}: did you mean 'node_id'"),
        ("{port.clinet}", r"unknown placeholder \{port\.clinet\}: did you mean 'port\.client'"),
        ("{nodes.rpc:yaml}", r"unknown placeholder \{nodes\.rpc:yaml\}"),
        ("{java}", r"unknown placeholder \{java\}.*plain braces are written \{\{ and \}\}"),
    ],
)
def test_an_unknown_placeholder_is_an_error(text: str, said: str) -> None:
    """It is never left standing: the file, the name, a near name, and how plain braces are written."""
    with pytest.raises(UsageError, match=f"thing.toml: {said}"):
        render(text, placeholders(PLANS, 1, {}), "thing.toml")


@pytest.mark.parametrize("name", ["kafka2", "kafka-client"])
def test_any_port_name_is_a_placeholder(name: str) -> None:
    """A port that a target may have can be used in its texts."""
    parse(Target, MINIMAL | {"ports": [name]}, "thing.toml")
    values = placeholders([NodePlan(1, "h", "b", "c", {name: 77})], 1, {})
    assert render(f"{{port.{name}}}", values, "x") == "77"


def test_a_target_may_say_where_its_data_is() -> None:
    """In the node's directory as a process, anywhere inside as a container."""
    target = load_target("kafka")
    assert target.process
    assert target.process.data == "data"
    assert target.container
    assert target.container.data == "/tmp/kraft-combined-logs"


@pytest.mark.parametrize(
    "part", [{"process": {"command": ["x"], "data": "/data"}}, {"container": {"image": "x", "data": "data"}}]
)
def test_data_in_a_place_that_cannot_be_is_refused(part: dict[str, Any]) -> None:
    """An absolute path would be somebody else's, a relative one inside means nothing."""
    with pytest.raises(UsageError, match="data"):
        parse(Target, {"name": "thing", **part}, "thing.toml")


@pytest.mark.parametrize(
    "pattern", [r"\[(?P<topic>\w+)-(?P<partition>\d+)\] (?:is|was) \S", "[(?=]", "(?i)leader", r"\bx\b"]
)
def test_a_pattern_that_does_not_look_around_is_taken(pattern: str) -> None:
    """Whatever else it has."""
    assert is_understood(pattern)


def test_a_loop_repeats_its_text_for_each_node() -> None:
    """For a table of peers; lines that hold a tag alone leave nothing behind."""
    text = """id = {node_id}
{for node in peers}
  [[peer]]
  at = "{node.host}:{node.port.rpc}" # {node.id} of {cluster_id}
  {end}
end
"""
    values = placeholders(PLANS, 2, {"cluster_id": "x"})
    assert render(text, values, "thing.toml") == (
        'id = 2\n  [[peer]]\n  at = "h1:201" # 1 of x\n  [[peer]]\n  at = "h3:203" # 3 of x\nend\n'
    )
    assert render("a={for node in nodes}{node.id}@{node.client_host};{end}", values, "x") == "a=1@c1;2@c2;3@c3;"
    assert render("{node.3.port.client}", values, "x") == "103"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{for node in peers} a", r"thing.toml: the loop \{for node in peers\} cannot be read: .*\{end\}"),
        ("{for peer in peers} a {end}", r"the loop \{for peer in peers\} cannot be read"),
        ("a {end}", r"unknown placeholder \{end\}"),
        ("{for node in nodes}{node.wal}{end}", r"unknown placeholder \{node\.1\.wal\}"),
        ("{node.2.wal}", r"unknown placeholder \{node\.2\.wal\}"),
        ("{node.host}", r"unknown placeholder \{node\.host\}"),
        ("{port.client.x.y}", r"unknown placeholder \{port\.client\.x\.y\}"),
    ],
)
def test_what_no_loop_and_no_placeholder_is_is_an_error(text: str, said: str) -> None:
    """It is never left standing for the product to stumble over."""
    with pytest.raises(UsageError, match=said):
        render(text, placeholders(PLANS, 1, {}), "thing.toml")
