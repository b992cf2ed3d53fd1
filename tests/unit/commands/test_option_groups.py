"""Groups of options: a dataclass among the parameters of a command is as many flags as it has fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from harness.commands.option_groups import with_options


@dataclass(frozen=True, kw_only=True)
class Where:
    """A group, one field of which has no default."""

    host: Annotated[str, typer.Option(envvar="TEST_HOST", help="Whom to ask.")]
    ports: Annotated[list[int] | None, typer.Option("--port", "-p", min=1)] = None


@dataclass(frozen=True, kw_only=True)
class SafeWhere(Where):
    """A group that has more than another one."""

    tls: Annotated[bool, typer.Option("--tls")] = False


def app_of(seen: list[tuple[object, ...]]) -> typer.Typer:
    """A command with all kinds of parameters, which notes what it gets."""
    app = typer.Typer(add_completion=False)

    @app.command()
    @with_options
    def ask(
        *,
        question: Annotated[str, typer.Argument()] = "why?",
        where: SafeWhere,
        as_json: Annotated[bool, typer.Option("--json")] = False,
    ) -> None:
        """Ask somebody."""
        seen.append((question, where, as_json))

    return app


def test_a_command_gets_its_groups() -> None:
    """Made of the flags, the environment and the defaults, beside parameters that are no groups."""
    seen: list[tuple[object, ...]] = []
    app = app_of(seen)
    assert CliRunner().invoke(app, ["--host", "a", "-p", "1", "--port", "2", "--tls", "--json"]).exit_code == 0
    assert CliRunner().invoke(app, ["how?"], env={"TEST_HOST": "b"}).exit_code == 0
    assert seen == [
        ("why?", SafeWhere(host="a", ports=[1, 2], tls=True), True),
        ("how?", SafeWhere(host="b"), False),
    ]


def test_flags_are_those_of_single_options() -> None:
    """In the order in which they are written, and as strict."""
    app = app_of([])
    command = typer.main.get_command(app)
    assert [parameter.name for parameter in command.params] == ["question", "host", "ports", "tls", "as_json"]
    assert command.help == "Ask somebody."
    assert CliRunner().invoke(app, []).exit_code == 2
    assert CliRunner().invoke(app, ["--host", "a", "--port", "0"]).exit_code == 2


def test_a_flag_that_two_groups_have_is_an_error() -> None:
    """Of whoever writes the command, as soon as it is imported."""

    def ask(*, here: Where, there: SafeWhere) -> None:
        """Ask two."""

    with pytest.raises(ValueError, match="duplicate parameter name: 'host'"):
        with_options(ask)
