"""Placeholders: every text renders as the sum of its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.clusters.template import NodePlan, placeholders, render

PLANS = [NodePlan(n, f"h{n}", "b", f"c{n}", {"client": 100 + n, "rpc": 200 + n}) for n in (1, 2, 3)]
VALUES = placeholders(PLANS, 2, {"version": "1", "node_dir": "/d", "cluster_id": "x"})

plain = st.text(st.characters(codec="utf-8", exclude_characters="{}"))
pieces = st.one_of(
    plain.map(lambda text: (text, text)),
    st.sampled_from(sorted(VALUES)).map(lambda name: (f"{{{name}}}", VALUES[name])),
    st.sampled_from([("{{", "{"), ("}}", "}")]),
)


@given(plain)
def test_text_without_braces_is_left_alone(text: str) -> None:
    """Where there is no placeholder, nothing changes."""
    assert render(text, VALUES, "x") == text


@given(st.lists(pieces))
def test_a_text_is_the_sum_of_its_parts(parts: list[tuple[str, str]]) -> None:
    """Known placeholders never stay, doubled braces become plain ones, and neighbours do not disturb each other."""
    assert render("".join(source for source, _ in parts), VALUES, "x") == "".join(filled for _, filled in parts)


@given(st.lists(st.one_of(plain, st.sampled_from([f"{{{name}}}" for name in sorted(VALUES)]))))
def test_no_known_placeholder_is_left_standing(parts: list[str]) -> None:
    """Whatever surrounds it."""
    rendered = render("".join(parts), VALUES, "x")
    assert not [name for name in VALUES if f"{{{name}}}" in rendered]


@given(st.text())
def test_doubling_braces_protects_any_text(text: str) -> None:
    """Any text at all can be written in a target."""
    assert render(text.replace("{", "{{").replace("}", "}}"), VALUES, "x") == text
