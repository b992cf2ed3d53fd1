"""A session with a Spark Connect server: what PySpark makes of a URL, and how it is forgotten afterwards."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from harness.foundation.errors import UsageError
from harness.spark.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark's functions look here for which of its two sides they are to speak to.
MODE_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
ALWAYS = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}


def connect(place: Place) -> SparkSession:
    """A session of our own on a server that is there; its other users notice nothing."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes to the terminal otherwise
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    os.environ[MODE_VARIABLE] = "1"
    session = ConnectSession.builder.remote(place.master).create()
    _set(session, {**ALWAYS, **place.conf})
    return cast("SparkSession", session)


def disconnect(spark: SparkSession | None) -> None:
    """End the session, and free PySpark to have one of the other sort."""
    with suppress(Exception):  # a server that is gone has ended it already
        if spark is not None:
            spark.stop()
    os.environ.pop(MODE_VARIABLE, None)


def _set(session: object, conf: Mapping[str, str]) -> None:
    from pyspark.errors import PySparkException

    for name, value in conf.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                session.conf.set(name, value)  # type: ignore[attr-defined]
        except PySparkException as error:
            said = (str(error).splitlines() or [""])[0]
            raise UsageError(
                f"the Spark Connect server does not take {name}={value} ({said})",
                "give it to the server when it starts, and leave it out of --spark-conf",
            ) from error
