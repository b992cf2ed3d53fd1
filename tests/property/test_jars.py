"""Locks: a line is read back as the archive it was written for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.jars import Jar

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
