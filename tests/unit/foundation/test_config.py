"""Configuration: what is wrong is named, with its place and the nearest right name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.foundation.config import Model, parse, read_toml, suggestion
from harness.foundation.errors import Exit, UsageError


class Leaf(Model):
    """The innermost table."""

    colour: str
    depth_m: float = 1.0


class Branch(Model):
    """A table that may hold a table."""

    leaf: Leaf | None = None
    height_m: int = 1


class Tree(Model):
    """A whole file."""

    name: str
    branch: Branch | None = None
    leaves: tuple[Leaf, ...] = ()
    tags: dict[str, str] = {}


def mistake(data: dict[str, Any]) -> UsageError:
    """What parsing says about data that is wrong."""
    with pytest.raises(UsageError) as caught:
        parse(Tree, data, "tree.toml")
    assert caught.value.exit_code == Exit.USAGE
    assert caught.value.message.startswith("tree.toml: ")
    return caught.value


def test_a_right_file_becomes_a_frozen_model() -> None:
    """What is right is taken as it is, and cannot be changed afterwards."""
    tree = parse(Tree, {"name": "oak", "branch": {"leaf": {"colour": "green"}}, "tags": {"any": "key"}}, "tree.toml")
    assert tree == Tree(name="oak", branch=Branch(leaf=Leaf(colour="green")), tags={"any": "key"})
    with pytest.raises(ValueError, match="frozen"):
        tree.name = "elm"


@pytest.mark.parametrize(
    ("data", "place", "meant"),
    [
        ({"name": "oak", "brnach": {}}, "brnach", "branch"),
        ({"name": "oak", "branch": {"hieght_m": 2}}, "branch.hieght_m", "height_m"),
        ({"name": "oak", "branch": {"leaf": {"colour": "red", "dept_m": 2}}}, "branch.leaf.dept_m", "depth_m"),
    ],
)
def test_an_unknown_key_gets_a_suggestion(data: dict[str, Any], place: str, meant: str) -> None:
    """At any depth an unknown key is named with its place and the key that was probably meant."""
    said = mistake(data)
    assert f"unknown key '{place}'" in said.message
    assert said.remedy == f"did you mean '{meant}'?"


def test_an_unknown_key_in_an_array_of_tables_gets_a_suggestion() -> None:
    """Tables in an array are no exception."""
    said = mistake({"name": "oak", "leaves": [{"colour": "red", "dept_m": 2}]})
    assert "unknown key 'leaves.0.dept_m'" in said.message
    assert said.remedy == "did you mean 'depth_m'?"


def test_an_unknown_key_unlike_any_other_gets_the_list() -> None:
    """Where nothing is near, all keys of that very table are listed."""
    assert mistake({"name": "oak", "branch": {"zzz": 1}}).remedy == "known here: height_m, leaf"


@pytest.mark.parametrize(
    ("data", "place", "meant"),
    [
        ({"nmae": "oak"}, "nmae", "name"),
        ({"name": "oak", "branch": {"leaf": {"color": "red"}}}, "branch.leaf.color", "colour"),
    ],
)
def test_a_misspelled_required_key_is_a_misspelling(data: dict[str, Any], place: str, meant: str) -> None:
    """The user wrote the key, only wrongly: saying that it is missing would mislead."""
    said = mistake(data)
    assert f"unknown key '{place}'" in said.message
    assert meant in said.remedy
    assert "missing" not in str(said)


@pytest.mark.parametrize(
    ("data", "place"), [({}, "name"), ({"name": "x", "branch": {"leaf": {}}}, "branch.leaf.colour")]
)
def test_a_missing_key_is_named(data: dict[str, Any], place: str) -> None:
    """A required key that was not written is missing, with its place."""
    said = mistake(data)
    assert f"the key '{place}' is missing" in said.message
    assert said.remedy == "add it"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"name": 5}, "'name' cannot be 5: use text"),
        ({"name": "oak", "branch": {"height_m": "tall"}}, "'branch.height_m' cannot be 'tall': use a whole number"),
        ({"name": "oak", "branch": 3}, "'branch' cannot be 3: use a table"),
        ({"name": "oak", "tags": {"a": 1}}, "'tags.a' cannot be 1: use text"),
        (
            {"name": "oak", "leaves": [{"colour": "red"}, {"colour": 7}]},
            "'leaves.1.colour' cannot be 7: use text",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(data: dict[str, Any], said: str) -> None:
    """A value of the wrong kind is an error with the place of the value."""
    assert str(mistake(data)) == f"tree.toml: {said}"


@pytest.mark.parametrize(
    ("known", "expected"),
    [(["consume", "produce"], "did you mean 'produce'?"), (["b", "a"], "known here: a, b"), ([], "remove it")],
)
def test_suggestions(known: list[str], expected: str) -> None:
    """The nearest name, else all names in order, else the advice to remove it."""
    assert suggestion("prodcue", known) == expected


def test_toml_is_read_as_utf_8(tmp_path: Path) -> None:
    """A file is read as UTF-8 whatever the locale."""
    file = tmp_path / "right.toml"
    file.write_bytes('name = "ébène"\n[branch]\nheight_m = 3\n'.encode())
    assert read_toml(file) == {"name": "ébène", "branch": {"height_m": 3}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = \n", "is not valid TOML .*line 1"),
        (b"a = 1\na = 2\n", "is not valid TOML .*line 2"),
        (b'name = "\xff\xfe"\n', "cannot be read"),
    ],
    ids=["cut off", "key twice", "not UTF-8"],
)
def test_a_bad_file_is_a_usage_error(tmp_path: Path, content: bytes, said: str) -> None:
    """What is not TOML, or not UTF-8, is named with the path and the reason."""
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=f"bad.toml {said}"):
        read_toml(file)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A path that leads nowhere is named."""
    with pytest.raises(UsageError, match=r"there is no file .*nowhere\.toml"):
        read_toml(tmp_path / "nowhere.toml")


def test_a_directory_is_a_usage_error(tmp_path: Path) -> None:
    """A directory in place of a file is named."""
    with pytest.raises(UsageError, match="cannot be read"):
        read_toml(tmp_path)
