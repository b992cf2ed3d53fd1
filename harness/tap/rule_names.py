"""Names in rules: Kafka's APIs, errors and fields, and rates as people write them.

Everything here turns what a scenario says into what goes over the wire, or raises a ValueError that says what to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import kafka.errors

from harness.foundation.config import suggestion
from harness.foundation.error_codes import KAFKA
from harness.foundation.protocol import Api
from harness.tap.codec import API_NAMES, CODECS, REQUESTS, RESPONSES

TOPICS_ASKED = frozenset({*REQUESTS, Api.OFFSET_FETCH, Api.ADD_PARTITIONS_TO_TXN, Api.METADATA})
PARTITIONS_ASKED = TOPICS_ASKED - {Api.METADATA}
PARTITIONS_TOLD = frozenset(RESPONSES)

_APIS = {name.lower(): name for name in API_NAMES}
_HIGHEST_CODE = 2**15 - 1
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?(?:/s)?\s*", re.ASCII)
_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_HIGHEST_RATE = 10**12
_STEP = re.compile(r"[+-][0-9]{1,19}", re.ASCII)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def api_name(written: object) -> str:
    """Kafka's name of an API, from one in any case."""
    if not isinstance(written, str):
        raise ValueError(f"{written!r} is no API: write Kafka's name of it, such as 'Produce'")  # noqa: TRY004
    name = _APIS.get(written.strip().lower())
    if name is None:
        raise ValueError(f"there is no API '{written}': {suggestion(written, sorted(API_NAMES))}")
    return name


@cache
def _error_codes() -> dict[str, int]:
    classes: list[Any] = [known for known in vars(kafka.errors).values() if isinstance(known, type)]
    broker_errors = [cls for cls in classes if issubclass(cls, kafka.errors.BrokerResponseError)]
    found = {cls.message: cls.errno for cls in broker_errors if cls.errno is not None}
    return {**found, **{name: code for code, name in KAFKA.items()}}


@cache
def _error_names() -> dict[int, str]:
    return {**{code: name for name, code in _error_codes().items()}, **KAFKA}


def error_code(written: object) -> int:
    """The number of an error, from its name in any case or its number."""
    if isinstance(written, int) and not isinstance(written, bool):
        if -1 <= written <= _HIGHEST_CODE:
            return written
        raise ValueError(f"{written} is no error code of Kafka: they go from -1 to {_HIGHEST_CODE}")
    if isinstance(written, str):
        code = _error_codes().get(written.strip().upper())
        if code is not None:
            return code
        raise ValueError(f"there is no error '{written}': {_near(written.upper())}, or write its number")
    raise ValueError(
        f"{written!r} is no error: write Kafka's name of it, such as 'NOT_LEADER_OR_FOLLOWER', or its number"
    )


def error_name(written: object) -> str | int:
    """Kafka's name of an error, or its number when it is too new to have one here."""
    code = error_code(written)
    return _error_names().get(code, code)


def _near(name: str) -> str:
    said = suggestion(name, sorted(_error_codes()))
    return said if said.startswith("did you mean") else "write it as Kafka does, such as 'NOT_LEADER_OR_FOLLOWER'"


def bytes_per_second(written: object) -> int:
    """A rate: `64KiB`, `1.5MB/s`, or a number of bytes per second."""
    if isinstance(written, str) and (match := _RATE.fullmatch(written)):
        rate = int(float(match[1]) * _UNITS[match[2] or "B"])
    elif isinstance(written, int) and not isinstance(written, bool):
        rate = written
    else:
        raise ValueError(f"{written!r} is no rate: write 64KiB, 1MB or a number of bytes, for one second")
    if not 1 <= rate <= _HIGHEST_RATE:
        raise ValueError(f"{written!r} is not between one byte and a terabyte per second")
    return rate


def can_refuse(api: int) -> bool:
    """Whether some version of an API has an answer that is nothing but an error."""
    by_partition = api in REQUESTS and api in RESPONSES
    return (
        by_partition or api in {Api.METADATA, Api.FIND_COORDINATOR} or "error_code" in _fields_of(CODECS[api].response)
    )


class Change(NamedTuple):
    """What becomes of one field: another value, or the old one and a `step`."""

    field: str
    value: Any
    step: int | None = None
    of_partition: bool = False

    def apply(self, message: Any, version: int) -> bool:
        """Change the field of a message; False when it has none in this version, or nothing to add to."""
        field = _fields_of(type(message)).get(self.field)
        if field is None or not field.for_version_q(version):
            return False
        value = self.value
        if self.step is not None:
            before = getattr(message, self.field)
            if before is None:
                return False
            highest = _highest(field)
            value = max(-highest - 1, min(highest, before + self.step))
        setattr(message, self.field, value)
        return True


def changes(api: int, fields: Mapping[str, Any]) -> list[Change]:
    """What to do to a response of this API; partitions' fields come before those of the whole response."""
    whole, of_partition = _plain(_fields_of(CODECS[api].response)), _plain(_partition_fields(api))
    made = []
    for name, written in fields.items():
        field = of_partition.get(name) or whole.get(name)
        if field is None:
            known = ", ".join(sorted({*of_partition, *whole}))
            raise ValueError(f"a response of {CODECS[api].name} has no field '{name}' to rewrite: there are {known}")
        made.append(_change(field, name, written)._replace(of_partition=name in of_partition))
    return made


def _change(field: Any, name: str, written: Any) -> Change:
    kind = field._type_str  # noqa: SLF001 - kafka-python tells the type nowhere else
    if kind in {"bool", "string"}:
        if not isinstance(written, bool if kind == "bool" else str):
            raise ValueError(f"'{name}' is {'true or false' if kind == 'bool' else 'a text'}, and not {written!r}")
        return Change(name, written)
    if isinstance(written, str) and _STEP.fullmatch(written):
        return Change(name, None, int(written))
    if isinstance(written, str) and name == "error_code":
        return Change(name, error_code(written))
    if isinstance(written, bool) or not isinstance(written, int):
        how = "write one such as 100, or '+5' or '-5' to move it"
        raise ValueError(f"'{name}' is a number: {how}, and not {written!r}")  # noqa: TRY004 - pydantic takes ValueError
    if not -_highest(field) - 1 <= written <= _highest(field):
        raise ValueError(f"{written} is too large for '{name}', which has {_BITS[kind]} bits")
    return Change(name, written)


def _fields_of(cls: Any) -> dict[str, Any]:
    fields: dict[str, Any] = cls._struct.fields
    return fields


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are one number, truth or text."""
    return {name: field for name, field in fields.items() if field._type_str in {*_BITS, "bool", "string"}}  # noqa: SLF001


def _highest(field: Any) -> int:
    return (1 << (_BITS[field._type_str] - 1)) - 1  # noqa: SLF001 - see above


def _partition_fields(api: int) -> dict[str, Any]:
    if api not in RESPONSES:
        return {}
    wanted = RESPONSES[Api(api)].partitions
    return next(_fields_named(_fields_of(CODECS[api].response), wanted), {})


def _fields_named(fields: Mapping[str, Any], wanted: str) -> Iterator[dict[str, Any]]:
    for name, field in fields.items():
        inner = getattr(field, "data_class", None)
        if inner is not None:
            if name == wanted:
                yield _fields_of(inner)
            yield from _fields_named(_fields_of(inner), wanted)


def carries(message: Any, code: int, version: int) -> bool:
    """Whether a message has this error, wherever in it."""
    for name, field in _fields_of(type(message)).items():
        if not field.for_version_q(version):
            continue
        value = getattr(message, name)
        if name in {"error_code", "partition_error_code"} and value == code:
            return True
        if getattr(field, "data_class", None) is not None:
            inside = value if isinstance(value, list) else () if value is None else (value,)
            if any(carries(each, code, version) for each in inside):
                return True
    return False
