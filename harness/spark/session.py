"""A Spark session that is up when it is needed: started in the background, warm, and gone when we are.

`Session.start` returns at once, `get` waits for the session, `close` ends it with everything it made. The JVM behind it
(`spark_jvm`) works in a directory of its own: give Spark absolute paths. With a Spark Connect server there is none.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.foundation import class_archive, optional_work
from harness.foundation.class_archive import Archive
from harness.foundation.errors import TidegaugeError, from_os_error
from harness.foundation.java import Java, find_java
from harness.spark import connect as spark_connect
from harness.spark import jvm as spark_jvm
from harness.spark.jvm import LOG_FILE, POLL_S, Jvm
from harness.spark.place import Place
from harness.spark.shipping import ship
from harness.spark.stopped import LOOK_EVERY_S, StoppedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WarmUp = Callable[["SparkSession"], None]

START_TIMEOUT_S = 180.0
WARM_UP_TIMEOUT_S = 10.0
END_TIMEOUT_S = 10.0
ARCHIVE_TIMEOUT_S = 120.0

# What PySpark imports into a gateway that it starts itself, but for what is left out of the class path.
_IMPORTS = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "scala.Tuple2",
)


class Session:
    """One Spark session and its JVM; a process can have one at a time, and another one after it."""

    def __init__(self, scratch: Path, place: Place, token: str) -> None:
        self._scratch, self._place, self._token = scratch, place, token
        self._warm: WarmUp | None = None
        self._niceness = 0
        self._directory: Path | None = None
        self._jvm: Jvm | None = None
        self._archive = Archive()
        self._gateway: Any = None
        self._spark: SparkSession | None = None
        self._error: TidegaugeError | None = None
        self._were_stopped = 0  # processes of Spark, and were killed
        self._lock = threading.Lock()
        self._up, self._wanted, self._closed = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="spark", daemon=True)

    @classmethod
    def start(
        cls,
        scratch: Path,
        *,
        place: Place | None = None,
        token: str = "",
        warm: WarmUp | None = None,
        niceness: int = 0,
    ) -> Self:
        """Begin to bring it up and return at once; what it writes lies in the scratch directory.

        While nobody waits for it, it runs `warm`, a first job that loads what later ones need; not on a cluster, which
        has others to serve. A JVM of our own is as nice to others as is asked for.
        """
        assert not _sessions, "PySpark can have one session in a process"
        session = cls(scratch.absolute(), place or Place(), token)
        session._warm = warm if session._place.is_local else None
        session._niceness = niceness
        _sessions.add(session)
        session._thread.start()
        return session

    def get(self) -> SparkSession:
        """Wait until it is up."""
        self._wanted.set()
        if not self._up.wait(START_TIMEOUT_S):
            raise TidegaugeError(f"Spark did not start within {START_TIMEOUT_S:.0f} s", "try again", self._log())
        self._thread.join(START_TIMEOUT_S)
        if self._thread.is_alive():
            raise TidegaugeError("Spark started and then got stuck", "try again", self._log())
        if self._error is not None:
            raise self._error
        assert self._spark is not None
        return self._spark

    @property
    def spark(self) -> SparkSession:
        """The session, as soon as it is up."""
        return self.get()

    @property
    def scratch(self) -> Path:
        """Where it writes."""
        return self._scratch

    @property
    def place(self) -> Place:
        """Where it runs."""
        return self._place

    @property
    def writes_archive(self) -> bool:
        """Whether closing it takes some seconds more, because the JVM writes the archive of its classes (once)."""
        return self._archive.written is not None and optional_work.is_wanted()

    def close(self) -> None:
        """End it, with its processes and files; only the log stays."""
        self._close(in_order=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        ended = self._ended(error) if isinstance(error, Exception) and not isinstance(error, TidegaugeError) else None
        self._close(in_order=kind is None)
        if ended is not None:
            raise ended from error

    def _run(self) -> None:
        try:
            self._bring_up()
        except TidegaugeError as error:
            self._error = error
        except OSError as error:
            self._error = from_os_error(error, "starting Spark")
        except Exception as error:  # noqa: BLE001 - PySpark and Py4J raise what they like; `get` has to know of it
            said = (str(error).splitlines() or [""])[0]
            self._error = TidegaugeError(
                f"Spark did not start ({type(error).__name__}: {said})", "see the end of its log below", self._log()
            )
        self._up.set()
        threading.Thread(target=self._end_stopped, name="spark watch", daemon=True).start()
        if self._spark is not None and self._warm and not self._wanted.is_set():
            with suppress(Exception):  # what stops this will stop the first real job too, which can say so
                self._warm(self._spark)

    def _end_stopped(self) -> None:
        """Nobody waits for ever for a JVM or a worker that somebody has stopped."""
        stopped = StoppedProcesses()
        while self._jvm is not None and not self._closed.wait(LOOK_EVERY_S):
            self._were_stopped += stopped.kill(self._jvm.pid)

    def _bring_up(self) -> None:
        self._place.check()
        if self._place.is_connect:
            self._spark = spark_connect.connect(self._place)
            ship(self._spark)
            return
        java = find_java(spark_jvm.MINIMUM_JAVA)
        jars = spark_jvm.jars(self._place)
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._directory = directory = Path(tempfile.mkdtemp(prefix="spark-", dir=self._scratch))
        environment = spark_jvm.environment(self._place, directory, self._token)
        if not spark_jvm.class_path_of(self._place):  # an archive knows nothing of directories, nor of strange jars
            found = class_archive.find(java, jars, spark_jvm.OPTIONS)
            self._archive = found or class_archive.record(java, jars, spark_jvm.OPTIONS, directory, environment)
        jvm = self._launch(java, jars, environment)
        import pyspark.sql  # noqa: F401 - slow, so while the JVM starts

        try:
            port, secret = jvm.address()
        except TidegaugeError:
            jvm.kill()
            if not self._archive.options:
                raise
            blamed, self._archive = self._archive, Archive()
            blamed.discard(unless_finished=True)
            port, secret = self._launch(java, jars, environment).address()
            blamed.discard()  # without it the JVM starts
        self._spark = self._connect(port, secret)
        if not self._place.is_local:
            ship(self._spark, self._directory)

    def _launch(self, java: Java, jars: list[Path], environment: Mapping[str, str]) -> Jvm:
        assert self._directory is not None
        options = [*spark_jvm.options(self._directory), *self._archive.options]
        command = spark_jvm.command(java, jars, self._place, options)
        with self._lock:
            if self._closed.is_set():
                raise TidegaugeError("the Spark session was closed while it started", "start another one")
            self._jvm = Jvm(command, self._directory, self._scratch / LOG_FILE, environment, self._niceness)
            return self._jvm

    def _connect(self, port: int, secret: str) -> SparkSession:
        from py4j import java_gateway
        from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        # It comes when the JVM is killed, which is how a session ends whose user is in a hurry.
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
        # Py4J would print what its callers learn from an exception anyway: it writes to the root logger.
        java_gateway.logging = java_gateway.logger
        # PySpark would read port and secret from os.environ, which is not ours to change under other threads.
        self._gateway = gateway = ClientServer(
            JavaParameters(port=port, auth_token=secret, auto_convert=True), PythonParameters(port=0, eager_load=False)
        )
        gateway.proc = None
        for name in _IMPORTS:
            java_gateway.java_import(gateway.jvm, name)
        assert self._directory is not None
        conf = SparkConf(loadDefaults=False)
        for name, value in {**spark_jvm.settings(self._place, self._directory), **self._place.conf}.items():
            conf.set(name, value)
        context = SparkContext(conf=conf, gateway=gateway)
        # It prints a traceback when its JVM is gone, and that is how a session ends.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        context.pythonExec = spark_jvm.python(self._place)
        return SparkSession(context)

    def _close(self, *, in_order: bool) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        try:
            in_a_hurry = self._archive.written is not None and not optional_work.is_wanted()
            if not (in_order and self._up.is_set()) or in_a_hurry:
                self._kill()
            self._thread.join(WARM_UP_TIMEOUT_S)
            timeout_s = ARCHIVE_TIMEOUT_S if self.writes_archive else END_TIMEOUT_S
            if self._jvm is not None and self._jvm.end(timeout_s) and not in_a_hurry:
                self._archive.keep()
        finally:
            self._kill()
            self._thread.join()
            self._archive.discard(unless_finished=True)
            self._forget()
            self._error = TidegaugeError("the Spark session is closed", "start another one")
            _sessions.discard(self)

    def _forget(self) -> None:
        """Free PySpark of a JVM that is gone, so that it can have another one, and remove what that one left."""
        if self._place.is_connect:
            spark_connect.disconnect(self._spark)
        self._leave()
        if self._directory is not None:
            sys.path[:] = [place for place in sys.path if not place.startswith(str(self._directory))]
            shutil.rmtree(self._directory, ignore_errors=True)

    def _leave(self) -> None:
        """Have nothing to do with the JVM any more."""
        if self._gateway is None:
            return
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if (context := SparkContext._active_spark_context) is not None:
            context._jsc = None  # else it would try to tell the JVM
            context.stop()
        self._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = self._gateway = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _kill(self) -> None:
        if self._jvm is not None:
            self._jvm.kill()

    def _ended(self, error: Exception) -> TidegaugeError | None:
        """What is to be said of a JVM that ended while it was used, instead of what Py4J says of that.

        One that is being killed lets go of its connections one by one: it may have dropped ours and still listen.
        """
        from py4j.protocol import Py4JNetworkError

        lost = isinstance(error, Py4JNetworkError | ConnectionError | EOFError) and not self._place.is_connect
        deadline = time.monotonic() + (END_TIMEOUT_S if lost else 0.0)
        while not (gone := self._is_gone()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if not gone:
            return None
        if self._were_stopped:
            said = "Spark's JVM was stopped by somebody (SIGSTOP), and was killed to come to an end"
            return TidegaugeError(said, "try again, and let it run", self._log())
        return TidegaugeError("Spark's JVM ended while it worked", "free some memory and try again", self._log())

    def _is_gone(self) -> bool:
        return self._jvm is not None and self._jvm.has_ended()

    def _log(self) -> tuple[str, ...]:
        return self._jvm.last_lines() if self._jvm is not None else ()


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
