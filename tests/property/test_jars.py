"""Locks: a line is read back as the archive it was written for."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from harness.clusters.jars import Jar, inputs_line

names = st.builds("{}{}".format, st.sampled_from("aZ09"), st.text("abcXYZ019_.-", max_size=12))
jars = st.builds(
    Jar,
    group=names,
    artifact=names,
    version=names,
    classifier=st.one_of(st.just(""), names),
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
)


@given(jars)
def test_a_line_is_read_back(jar: Jar) -> None:
    """Writing and reading are inverse, and a line is one line."""
    assert Jar.from_line(jar.line()) == jar
    assert jar.line().splitlines() == [jar.line()]


@given(jars)
def test_an_archive_lies_where_its_coordinates_say(jar: Jar) -> None:
    """The path ends with artifact, version and file name, as in every Maven repository."""
    assert jar.path.parts[-3:] == (jar.artifact, jar.version, jar.file_name)
    assert jar.file_name.startswith(f"{jar.artifact}-{jar.version}")


texts = st.lists(st.text(max_size=6), max_size=4)


@given(texts, texts, st.randoms(use_true_random=False))
def test_order_does_not_matter_to_the_first_line(coordinates: list[str], exclude: list[str], chance: Random) -> None:
    """It is one line, a comment, and the same for the same coordinates."""
    inputs = inputs_line(coordinates, exclude)
    shuffled = chance.sample(coordinates, len(coordinates)), chance.sample(exclude, len(exclude))
    assert inputs_line(*shuffled) == inputs
    assert inputs.splitlines() == [inputs]
    assert inputs.startswith("#")


@given(texts, texts, texts, texts)
def test_other_inputs_have_another_first_line(a: list[str], b: list[str], c: list[str], d: list[str]) -> None:
    """However texts are split: only what is equal is equal."""
    same = (sorted(a), sorted(b)) == (sorted(c), sorted(d))
    assert (inputs_line(a, b) == inputs_line(c, d)) is same
