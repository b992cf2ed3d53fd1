"""Which cases `-k` picks: by a part of a name, or an expression of such parts with and, or, not and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.foundation.config import suggestion
from harness.foundation.errors import UsageError
from harness.suite.spec import SuiteCase

_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_HOW = "write parts of names, with and, or, not and parentheses between them"
Matches = Callable[[str], bool]


def chosen(cases: Sequence[SuiteCase], expression: str, only: Sequence[str]) -> list[SuiteCase]:
    """Those that match the expression and are among the names, where these are given."""
    names = [case.name for case in cases]
    for name in only:
        if name not in names:
            raise UsageError(f"there is no case '{name}'", suggestion(name, names))
    matches = matcher(expression) if expression.strip() else lambda _: True
    found = [case for case in cases if matches(case.name) and (not only or case.name in only)]
    if not found:
        raise UsageError(f"no case matches '{expression}'", "see them with --list")
    return found


def matcher(expression: str) -> Matches:
    """What says of a name whether it matches."""
    tokens = _TOKEN.findall(expression)
    matches, rest = _either(tokens, expression)
    if rest:
        raise UsageError(f"-k: '{expression}' goes on at '{rest[0]}' and should not", _HOW)
    return matches


def _either(tokens: list[str], whole: str) -> tuple[Matches, list[str]]:
    first, rest = _both(tokens, whole)
    if rest[:1] != ["or"]:
        return first, rest
    second, rest = _either(rest[1:], whole)
    return (lambda name: first(name) or second(name)), rest


def _both(tokens: list[str], whole: str) -> tuple[Matches, list[str]]:
    first, rest = _one(tokens, whole)
    if rest[:1] != ["and"]:
        return first, rest
    second, rest = _both(rest[1:], whole)
    return (lambda name: first(name) and second(name)), rest


def _one(tokens: list[str], whole: str) -> tuple[Matches, list[str]]:
    if not tokens or tokens[0] in {"and", "or", ")"}:
        raise UsageError(f"-k: '{whole}' lacks a part of a name", _HOW)
    token, *rest = tokens
    if token == "not":  # noqa: S105 - a word of the expression
        inner, rest = _one(rest, whole)
        return (lambda name: not inner(name)), rest
    if token == "(":  # noqa: S105 - the same
        inner, rest = _either(rest, whole)
        if rest[:1] != [")"]:
            raise UsageError(f"-k: '{whole}' lacks a closing parenthesis", _HOW)
        return inner, rest[1:]
    return (lambda name: token.lower() in name.lower()), rest
