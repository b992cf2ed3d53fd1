"""EDN, as Clojure programs print it, a line at a time.

`parse` is strict and says where something is wrong. `parse_quickly` takes ordinary lines (no escapes, no tags beside
that of a Jepsen operation) many at once, by making JSON of them; it declines whatever it is not sure of, and agrees
with `parse` on all else.

Numbers, nil and booleans are Python's; a vector is a list. What else there is keeps its kind: a keyword is a str with
its colon, a map `{"m": [key, value, key, value, …]}`, a list `{"l": […]}`, a set `{"s": […]}`, a tagged value
`{"t": [tag, value]}`, but for the tag of a Jepsen operation, which is left out; a string is `Quoted`, and a symbol or
a character is a `Symbol`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

OPERATION_TAG = "#jepsen.history.Op{"
DEPTH_AT_MOST = 200
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_TOKEN = re.compile(
    r"""[ \t\r\n\f\v,]*(?:
      (?P<number>[+-]?\d[^\s,()\[\]{}";]*)
    | (?P<keyword>:[^\s,()\[\]{}";:][^\s,()\[\]{}";]*)
    | (?P<open>[\[({]|\#\{)
    | (?P<close>[\])}])
    | "(?P<string>(?:[^"\\]|\\.)*)"
    | (?P<drop>\#_)
    | (?P<tag>\#[^\s,()\[\]{}";#_]+)
    | (?P<comment>;.*)
    | (?P<symbol>\\?[^\s,()\[\]{}";:\#\\]+|\\.)
    )""",
    re.VERBOSE,
)
GAP = " \t\r\n\f\v,"
_WHOLE = re.compile(r"[+-]?(?:0|[1-9]\d*)N?", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?M?", re.ASCII)
_RATIO = re.compile(r"[+-]?\d+/\d+", re.ASCII)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "b": "\b", "f": "\f"}
_LITERALS = {"nil": None, "true": True, "false": False}
# Keywords of Jepsen's operations; one whose beginning is another comes first, its colon written so that it is not met
# again. Whatever follows a keyword that is no end of it makes no JSON.
_KEYWORDS = tuple(
    (keyword, f'"{keyword}"')
    for keyword in (
        *(":invoke", ":ok", ":fail", ":info", ":send", ":poll", ":txn", ":assign", ":subscribe", ":crash", ":nemesis"),
        *(":index", ":time", ":type", ":process", ":value", ":error"),
    )
)
_LONGER = tuple(
    (keyword, f'"\\u003a{keyword[1:]}"') for keyword in (":poll-ms", ":seek-to-beginning?", ":rebalance-log")
)
_USUAL = frozenset({":f", *(keyword for keyword, _ in (*_LONGER, *_KEYWORDS))})
_KEYWORD = re.compile(r"(?<![^ ,\[({]):[A-Za-z][A-Za-z0-9.*+!?<>=_-]*(?=[ ,\])}]|$)")


@dataclass(frozen=True)
class Quoted:
    """A string."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """A symbol, a character, a ratio: kept as it is written."""

    text: str


class EdnError(ValueError):
    """What is wrong, and in which column."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} at column {at + 1}")


def parse(text: str) -> Any:
    """The one value that the text is."""
    stack: list[_Collection] = [_Collection("", 0)]
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            _check_end(text, at)
            break
        kind, start = str(match.lastgroup), match.start(match.lastgroup)  # type: ignore[arg-type]
        at = match.end()
        if kind == "open":
            if len(stack) > DEPTH_AT_MOST:
                raise EdnError("it is nested too deeply", start)
            stack.append(_Collection(match[kind], start))
        elif kind == "close":
            if len(stack) == 1:
                raise EdnError(f"'{match[kind]}' closes nothing", start)
            closed = stack.pop()
            stack[-1].add(closed.value(match[kind], start), start)
        elif kind in {"tag", "drop"}:
            stack[-1].prefixes.append((match[kind], start))
        elif kind != "comment":
            stack[-1].add(_scalar(kind, match[kind], start), start)
    if len(stack) > 1:
        raise EdnError(f"'{stack[-1].bracket}' is not closed", stack[-1].at)
    return stack[0].only(len(text))


def _check_end(text: str, at: int) -> None:
    rest = text[at:].lstrip(GAP)
    if rest:
        reason = "a string has no end" if rest[0] == '"' else f"'{rest[0]}' makes no sense"
        raise EdnError(reason, len(text) - len(rest))


class _Collection:
    """A collection in the making."""

    def __init__(self, bracket: str, at: int) -> None:
        self.bracket = bracket
        self.at = at
        self.items: list[Any] = []
        self.places: list[int] = []
        self.prefixes: list[tuple[str, int]] = []

    def add(self, item: Any, at: int) -> None:
        """One more item, with the tags before it; a dropped one is left out."""
        while self.prefixes:
            prefix, _ = self.prefixes.pop()
            if prefix == "#_":
                return
            if prefix != OPERATION_TAG[:-1]:
                item = {"t": [prefix[1:], item]}
        self.items.append(item)
        self.places.append(at)

    def value(self, bracket: str, at: int) -> Any:
        """The finished collection."""
        if _CLOSES[self.bracket] != bracket:
            raise EdnError(f"'{bracket}' closes '{self.bracket}'", at)
        self._no_prefix()
        if self.bracket == "[":
            return self.items
        if self.bracket == "{" and len(self.items) % 2:
            raise EdnError("a map has a key without a value", self.at)
        return {{"{": "m", "(": "l", "#{": "s"}[self.bracket]: self.items}

    def only(self, end: int) -> Any:
        """The only item."""
        self._no_prefix()
        if not self.items:
            raise EdnError("there is nothing", end)
        if len(self.items) > 1:
            raise EdnError("something comes after the value", self.places[1])
        return self.items[0]

    def _no_prefix(self) -> None:
        if self.prefixes:
            raise EdnError(f"{self.prefixes[-1][0]} stands before nothing", self.prefixes[-1][1])


def _scalar(kind: str, text: str, at: int) -> Any:
    if kind == "keyword":
        return text
    if kind == "number":
        if _WHOLE.fullmatch(text):
            if len(text) > 1000:
                raise EdnError("a number is too long", at)
            return int(text.rstrip("N"))
        if _FLOAT.fullmatch(text):
            return float(text.rstrip("M"))
        if _RATIO.fullmatch(text):
            return Symbol(text)
        raise EdnError(f"'{text[:40]}' is no number", at)
    if kind == "string":
        return Quoted(_whole_characters(_ESCAPE.sub(lambda match: _unescaped(match[1], at), text), at))
    return _LITERALS[text] if text in _LITERALS else Symbol(text)


def _whole_characters(text: str, at: int) -> str:
    """Two escapes may be the halves of one character; one alone is none."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise EdnError("a string holds half a character", at) from None


def _unescaped(text: str, at: int) -> str:
    if text[0] == "u" and len(text) == 5:
        return chr(int(text[1:], 16))
    if text not in _ESCAPED:
        raise EdnError(f"'\\{text}' is nothing that a string can hold", at)
    return _ESCAPED[text]


def _decline(name: str) -> NoReturn:
    raise ValueError(name)


def parse_quickly(lines: Sequence[str]) -> list[Any]:
    """The value of each line, or None for one that `parse` has to look at."""
    kept: list[Any] = []

    def collection(found: dict[str, Any]) -> Any:
        if "q" in found:
            return kept[found["q"]]
        if "m" in found and len(found["m"]) % 2:
            raise ValueError("a key without a value")
        if "l" in found:  # the items of a list are one level deeper, so that no other bracket closes it
            (items,) = found["l"]
            return {"l": items}
        return found

    scan = json.JSONDecoder(parse_constant=_decline, object_hook=collection).scan_once  # type: ignore[attr-defined]
    text = "\n".join(
        [_prepared(line, kept) if '"' in line or "@" in line or ":error" in line else line for line in lines]
    )
    text = text.replace(OPERATION_TAG, "{").replace(":f ", '":f" ')
    for keyword, quoted in (*_LONGER, *_KEYWORDS):
        text = text.replace(keyword, quoted)
    text = text.replace("null", "~").replace("nil", "null")
    text = text.replace("{", '{"m":[').replace("}", "]}").replace("(", '{"l":[[').replace(")", "]]}")
    text = text.replace(", ", ",").replace(" ", ",")
    if kept:
        text = text.replace("@", '{"q":').replace("$", "}")
    return [_scanned(scan, line) for line in text.split("\n")] if lines else []


def _prepared(line: str, kept: list[Any]) -> str:
    """The line with `@number$` for its strings and unusual keywords, which are kept; no JSON if that is not sure."""
    parts = line.split('"')
    if "\\" in line or ";" in line or len(parts) % 2 == 0 or any("@" in part or "$" in part for part in parts[::2]):
        return "~"

    def placed(value: Any) -> str:
        kept.append(value)
        return f"@{len(kept) - 1}$"

    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = placed(Quoted(part))
        else:
            parts[place] = _KEYWORD.sub(lambda found: found[0] if found[0] in _USUAL else placed(found[0]), part)
    return "".join(parts)


def _scanned(scan: Callable[[str, int], tuple[Any, int]], line: str) -> Any:
    try:
        value, end = scan(line, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    return value if end == len(line) else None


def written(value: Any) -> str:
    """A value as EDN again, for people."""
    if isinstance(value, Quoted | Symbol):
        return json.dumps(value.text, ensure_ascii=False) if isinstance(value, Quoted) else value.text
    if isinstance(value, list):
        return f"[{' '.join(map(written, value))}]"
    if isinstance(value, dict):
        ((kind, items),) = value.items()
        if kind == "t":
            return f"#{items[0]} {written(items[1])}"
        first, last = {"m": "{}", "l": "()", "s": ("#{", "}")}[kind]
        return f"{first}{' '.join(map(written, items))}{last}"
    literals = [name for name, literal in _LITERALS.items() if value is literal]
    return literals[0] if literals else str(value)
