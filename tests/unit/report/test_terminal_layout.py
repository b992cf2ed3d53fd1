"""Rows of a screen: wrapped to its width, and left out where there is no room."""

from harness.report.terminal.layout import Row, fitted


def texts(row: Row, width: int = 50) -> list[str]:
    """Its lines as they are printed."""
    return ["".join(part if isinstance(part, str) else part[0] for part in line) for line in row.shown(width)]


def test_text_is_wrapped_beside_its_title() -> None:
    """Between words."""
    assert texts(Row("cause", "one two three four five six seven eight nine")) == [
        "  cause     one two three four five six seven",
        "            eight nine",
    ]
    assert texts(Row("", "")) == [""]


def test_a_path_is_never_broken() -> None:
    """It is there to be copied; the terminal's own wrapping is counted."""
    row = Row("repeat", f"tidegauge run {'x/' * 40}y", whole=True)
    assert texts(row) == [f"  repeat    tidegauge run {'x/' * 40}y"]
    assert row.height(50) == 3
    assert any("x/" * 40 in line for line in texts(Row("", f"see {'x/' * 40} there")))


def test_text_that_is_too_long_is_cut_between_words() -> None:
    """And says so; it is no longer than the others."""
    shown = texts(Row("", "one two three four, five six seven eight nine", lines=1), 40)
    assert shown == ["            one two three four, five …"]
    assert max(map(len, texts(Row("", "abcdefgh " * 30, lines=3)))) <= 50


def test_the_least_goes_first_and_what_must_stay_stays() -> None:
    """Of two alike the later one; then what can shrink does."""
    rows = [Row("a", "x"), Row("b", "x", least=1), Row("c", "x", least=2), Row("d", "x", least=2), Row("e", "x")]
    assert [row.title for row in fitted(rows, 80, 4)] == ["a", "b", "c", "e"]
    assert [row.title for row in fitted(rows, 80, 0)] == ["a", "e"]
    long = Row("f", "word " * 60, shrinks=True)
    assert [row.lines for row in fitted([long, long], 80, 100)] == [0, 0]
    assert [row.lines for row in fitted([long, long], 80, 2)] == [1, 1]


def test_a_narrow_screen_is_taken_for_a_wider_one() -> None:
    """Nothing can be read of three letters a line."""
    assert texts(Row("a", "one two three"), 5) == texts(Row("a", "one two three"), 40)
