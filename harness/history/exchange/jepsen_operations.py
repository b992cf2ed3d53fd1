"""The parts of Jepsen's operations: what a send, a poll, a key, a value and an offset have to look like."""

from __future__ import annotations

from typing import Any

from harness.history.exchange.edn import written
from harness.history.exchange.file_format import PROCESSES_AT_MOST, Wrong
from harness.history.schema import COLUMNS, ID_BITS

VALUES = 1 << ID_BITS
KEYS = PROCESSES_AT_MOST
NO_OFFSET = 1 << 63
NULL = COLUMNS["op"].null
DETAIL_CHARACTERS = 300

Micro = tuple[int, int] | None  # key and value of a send; None is a poll


def items_of(number: int, value: Any) -> list[Any]:
    """What is in a vector or a list."""
    if type(value) is list:
        return value
    if type(value) is dict and "l" in value:
        items: list[Any] = value["l"]
        return items
    raise Wrong(number, f"{shown(value)} stands where a vector should", "write it as Jepsen does")


def invoked_micro(number: int, micro: Any) -> Micro:
    """A micro-operation of an invocation."""
    items = items_of(number, micro)
    if items and items[0] == ":poll" and (len(items) == 1 or (len(items) == 2 and items[1] is None)):
        return None
    if len(items) != 3 or items[0] != ":send":
        raise malformed(number, micro)
    _, key, value = items
    check_value(number, value)
    return checked_key(number, key), value


def offset_of_send(number: int, micro: Any, key: int, value: int) -> int:
    """The offset that a send was given; unknown if the completion does not tell, as Jepsen accepts of any send."""
    items = items_of(number, micro)
    if len(items) != 3 or items[0] != ":send":
        raise malformed(number, micro)
    told, offset = items[2], NULL
    if type(told) is list and len(told) == 2 and items[1] == key and told[1] == value:
        offset = told[0]
        if type(offset) is int and 0 <= offset < NO_OFFSET and type(items[1]) is int and type(told[1]) is int:
            return offset
    if type(told) is not int:
        pair = items_of(number, told)
        if len(pair) != 2:
            raise Wrong(number, f"{shown(told)} is no pair of offset and value", "write [offset value]")
        told, offset = pair[1], checked_offset(number, pair[0])
    check_value(number, told)
    if checked_key(number, items[1]) != key or told != value:
        said = f"the completion has {shown(micro)}, the invocation sends {value} to key {key}"
        raise Wrong(number, said, "write the same ones in both")
    return offset


def checked_key(number: int, key: Any) -> int:
    """A key."""
    if type(key) is not int or not 0 <= key < KEYS:
        raise Wrong(number, f"the key is {shown(key)}", f"write a number from 0 to {KEYS - 1}")
    return key


def check_value(number: int, value: Any) -> None:
    """Refuse what is no value."""
    if type(value) is not int or not 0 <= value < VALUES:
        raise Wrong(number, f"the value is {shown(value)}", f"write a number from 0 to {VALUES - 1}")


def checked_offset(number: int, offset: Any, *, known: bool = False) -> int:
    """An offset, which may be unknown (nil) unless told otherwise."""
    if offset is None and not known:
        return NULL
    if type(offset) is not int or not 0 <= offset < NO_OFFSET:
        raise Wrong(number, f"the offset is {shown(offset)}", f"write a number from 0{'' if known else ', or nil'}")
    return offset


def malformed(number: int, micro: Any) -> Wrong:
    """What to say of a micro-operation that is none."""
    return Wrong(number, f"{shown(micro)} is no micro-operation", "write [:send key value] or [:poll]")


def shown(value: Any) -> str:
    """A value in an error."""
    return short(written(value), 40)


def short(text: str, most: int = DETAIL_CHARACTERS) -> str:
    """Not more of a text than fits."""
    return text if len(text) <= most else f"{text[:most]}…"
