"""Options that go together: a dataclass, which commands take as one parameter.

    @dataclass(frozen=True, kw_only=True)
    class SparkOptions:
        spark_master: Annotated[str | None, typer.Option(help="Where the checks run.")] = None
        spark_conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark.")] = None


    @with_options
    def report(*, store: StoreOption = None, spark: SparkOptions, as_json: JsonFlag = False) -> None:
        print(spark.spark_master)

This `report` has the flags --store, --spark-master, --spark-conf and --json, in this order. Below a `*`, a parameter
without a default may follow one that has one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: in place of each dataclass among its parameters stand the fields of that."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    typed: Any = flat  # for mypy, no function has a __signature__
    typed.__signature__ = inspect.Signature([option for each in parameters for option in _options(each)])
    return flat


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """The fields of a group, as parameters; anything else is an option itself."""
    group = parameter.annotation
    if not is_dataclass(group):
        yield parameter
        return
    annotations = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        annotation = annotations[field.name]
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
