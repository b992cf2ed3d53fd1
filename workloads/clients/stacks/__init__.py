"""All client stacks, by name: whatever module of this package has a `STACK`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, GetJsonSchemaHandler

from harness.foundation.config import suggestion
from harness.foundation.discovery import modules_with
from workloads.clients.stack import ClientStack, Quirks

FIRST = ("kafka_python", "confluent_kafka")  # in lists, and to be drawn from; others come after them, by name


def stacks_in(directories: Iterable[str]) -> dict[str, ClientStack]:
    """Those in the modules of this package that are in these directories, by name."""
    found: list[ClientStack] = [each.STACK for each in modules_with("STACK", __name__, directories, FIRST)]
    return {stack.name: stack for stack in found}


STACKS: dict[str, ClientStack] = stacks_in(__path__)


def find_stack(name: str) -> ClientStack:
    """The stack of this name; ValueError with those that there are."""
    if name not in STACKS:
        near = [said for said in [suggestion(name, list(STACKS))] if said.startswith("did you mean")]
        raise ValueError("; ".join([f"there is no client '{name}'", *near, f"known here: {', '.join(STACKS)}"]))
    return STACKS[name]


def quirks_of(name: str) -> Quirks:
    """What a client may do wrong by itself; nothing where nobody knows the client, as with histories of others."""
    return STACKS[name].quirks if name in STACKS else Quirks()


def those_with(has: Callable[[ClientStack], bool]) -> str:
    """The names of stacks that have something, as a setting would name them, or one of them."""
    return " or ".join(stack.name for stack in STACKS.values() if has(stack))


def with_groups() -> str:
    """Those that have members of groups."""
    return those_with(lambda stack: bool(stack.group_protocols))


def _known(name: str) -> str:
    return find_stack(name).name


class _Names:
    """What a schema says of a client: the names that there are."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "enum": list(STACKS)}


ClientName = Annotated[str, AfterValidator(_known), _Names]
