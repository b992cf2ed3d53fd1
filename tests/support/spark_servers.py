"""Spark on this machine, as somebody else would run it: a standalone cluster, and a Spark Connect server.

Started from the jars of the installed pyspark, on free ports of the loopback interface, each process with the directory
of the test as its world.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from harness.clusters.waiting import wait_until
from harness.foundation.java import find_java
from harness.spark import jvm as spark_jvm
from harness.spark.place import Place

HOST = "127.0.0.1"
PATIENCE_S = 120
HOME = Path(pyspark.__file__).parent
ELSEWHERE = Place("spark://somewhere:7077")  # whatever is not this JVM has all of Spark's jars


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def _java(directory: Path) -> Path:
    """A home of Java for executors: Spark asks for a module that only mllib uses, and not every Java has it."""
    home = directory / "java"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/bash\n"
        'for argument; do [ "$argument" = --add-modules=jdk.incubator.vector ] || kept+=("$argument"); done\n'
        f'exec "{find_java(spark_jvm.MINIMUM_JAVA).path}" "${{kept[@]}}"\n'
    )
    program.chmod(0o755)
    return home


@contextmanager
def _serving(directory: Path, name: str, port: int, arguments: Sequence[str]) -> Iterator[None]:
    """A process of Spark, from when its port answers until the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{name}.log"
    jars = os.pathsep.join(map(str, spark_jvm.jars(ELSEWHERE)))
    java = find_java(spark_jvm.MINIMUM_JAVA).path
    options = [
        *spark_jvm.OPTIONS,
        "-Xmx1g",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={directory}",
    ]
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",  # as the script says that would start it
        "SPARK_LOCAL_IP": HOST,
        "JAVA_HOME": str(_java(directory)),
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java, *options, "-cp", jars, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    try:
        wait_until(lambda: _answers(port, process, log), PATIENCE_S, f"{name} did not start: {log}", every_s=0.1)
        yield
    finally:
        process.terminate()  # in order: a worker ends its executors
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()


def _answers(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")[-2000:]
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a master with workers of one core each."""
    port = free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as running:
        master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port)]
        running.enter_context(
            _serving(directory / "master", "master", port, [*_settings(ui=False), *master, "--webui-port", "0"])
        )
        for number in range(workers):
            own, place = free_port(), directory / f"worker-{number}"
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", HOST, "--port", str(own), "--webui-port", "0"]
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), url]
            running.enter_context(_serving(place, "worker", own, [*_settings(ui=False), *worker, *size]))
        yield url


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The URL of a Spark Connect server that does its work itself."""
    port = free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.host": HOST,
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with _serving(directory, "connect", port, [*_settings(ui=False, **settings), server]):
        yield f"sc://{HOST}:{port}"


def _settings(*, ui: bool, **settings: str) -> list[str]:
    whole = {"spark.ui.enabled": str(ui).lower(), **settings}
    return [f"-D{name}={value}" for name, value in whole.items()]
