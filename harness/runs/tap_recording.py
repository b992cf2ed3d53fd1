"""The taps alone, before anybody's cluster: any application can be pointed at them, and its traffic be checked.

What passes is recorded in a directory that `tidegauge check` takes like any other run. Brokers that were not named get
a tap as soon as an answer names them, so one address is enough.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness.clusters.external import checked_addresses
from harness.foundation.config import Model, parse, read_toml
from harness.foundation.durations import Duration
from harness.foundation.errors import ClusterError, UsageError
from harness.foundation.interrupts import StopRequest
from harness.foundation.ports import PortLeases
from harness.foundation.security import Security, SecuritySpec
from harness.foundation.view import View
from harness.history.schema import SCHEMA_VERSION
from harness.history.sealing import seal
from harness.history.sources import segment_path
from harness.history.store import Run, without_secrets
from harness.runs import provenance
from harness.tap.process import TapConfig, Upstream
from harness.tap.spec import TapSpec
from harness.tap.taps import TapPlace, Taps

TICK_S = 0.2
REACH_TIMEOUT_S = 5.0
KIND = "tap"


class TapRecording(Model):
    """What to listen before, and where to keep what passes."""

    upstreams: tuple[str, ...] = Field(min_length=1)
    directory: Path
    security: Security = Security()
    spec: TapSpec = TapSpec()
    ports: tuple[Annotated[int, Field(gt=0, lt=65536)], ...] = ()
    seed: int = 0
    time: Duration | None = None  # for how long; None until it is stopped


def read_spec(file: Path | None, broken: Sequence[str]) -> TapSpec:
    """The rules of a file, which may be a scenario, and the bugs to play."""
    data = read_toml(file) if file else {}
    table = data.get("tap", {} if "workload" in data else data)
    if not isinstance(table, dict):
        raise UsageError(f"{file}: 'tap' is wrong", "write it as a table")
    spec = parse(TapSpec, {**table, "broken": [*table.get("broken", []), *broken]}, str(file or "the command line"))
    if file and not (spec.rule or spec.broken):
        raise UsageError(f"{file} holds no rules", "write them as [[rule]], or as [[tap.rule]] of a scenario")
    return spec


def record(
    recording: TapRecording, command_line: Sequence[str], view: View, opened: Callable[[list[TapPlace]], None]
) -> dict[str, Any]:
    """Run the taps until Ctrl-C or the end of the time, seal what they saw, and say what that was."""
    stop = StopRequest()
    stop.may_wait = True
    with stop.listening(), recorded(recording, command_line) as (run, taps):
        opened(taps.current.taps)
        _watch(taps, stop, view, recording.time)
    told = {"deaths": taps.deaths, "troubles": [*taps.deaths, *taps.troubles]}
    return {"record": str(run.path), **taps.counts, **told}


@contextmanager
def recorded(recording: TapRecording, command_line: Sequence[str]) -> Iterator[tuple[Run, Taps]]:
    """The taps, as long as this lasts; whoever has them watches them. Then what they saw is sealed."""
    addresses = checked_addresses(recording.upstreams)
    if recording.ports and len(recording.ports) != len(addresses):
        raise UsageError(
            f"{len(recording.ports)} ports were given for {len(addresses)} upstream addresses", "give one for each"
        )
    _reach(addresses)
    with ExitStack() as undo:
        leases = PortLeases()
        undo.callback(leases.release)
        ports = [leases.take_exactly(port) for port in recording.ports] or leases.take(len(addresses))
        run = _directory(recording.directory)
        undo.enter_context(run.held())
        _describe(run, recording, command_line)
        taps = Taps(
            lambda process: _config(run, recording, process, ports),
            {},
            run.path / "logs",
            lambda n: run.started(n, "tap"),
        )
        undo.callback(taps.stop, 0)
        taps.prepare()
        try:
            taps.start()
        except BaseException:
            shutil.rmtree(run.path, ignore_errors=True)  # nothing passed, and the name may be wanted again
            raise
        yield run, taps
        taps.stop()
        seal(run.path)
    run.update(state="finished", dead_workers=taps.deaths, troubles=taps.troubles, tap=taps.counts)


def _watch(taps: Taps, stop: StopRequest, view: View, time_s: float | None) -> None:
    began_s = time.monotonic()
    known = {(tap.host, tap.upstream_port) for tap in taps.current.taps}
    while not stop.asked and (time_s is None or time.monotonic() - began_s < time_s):
        for sentence in taps.watch():
            view.happened(sentence)
        if taps.lost:
            raise ClusterError("the tap cannot be kept up", "see its log in the directory of the recording")
        for tap in taps.current.taps:
            if (tap.host, tap.upstream_port) not in known:
                known.add((tap.host, tap.upstream_port))
                view.happened(f"{tap.address} is now before {tap.upstream} (node {tap.node})")
        counts = taps.counts
        view.detail(f"{counts['exchanges']:,} exchanges on {counts['connections']:,} connections")
        time.sleep(TICK_S)


def _config(run: Run, recording: TapRecording, process: int, ports: Sequence[int]) -> TapConfig:
    return TapConfig(
        process=process,
        segment=segment_path(run.path, process),
        upstreams=tuple(
            Upstream(address=address, port=port) for address, port in zip(recording.upstreams, ports, strict=True)
        ),
        security=SecuritySpec.of(recording.security),
        rules=recording.spec.rule,
        broken=recording.spec.broken,
        seed=recording.seed,
    )


def _reach(addresses: Sequence[tuple[str, int]]) -> None:
    """At least one of them has to be there, or nobody would ever get an answer."""
    errors = []
    for address in addresses:
        try:
            socket.create_connection(address, REACH_TIMEOUT_S).close()
        except OSError as error:
            errors.append(f"{address[0]}:{address[1]}: {error}")
        else:
            return
    raise ClusterError(f"no broker can be reached ({'; '.join(errors)})", "check the addresses and that brokers run")


def _directory(path: Path) -> Run:
    path = path.expanduser().absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is there already", "name a new or an empty directory: nothing is overwritten")
    path.mkdir(parents=True, exist_ok=True)
    return Run(path)


def _describe(run: Run, recording: TapRecording, command_line: Sequence[str]) -> None:
    run.update(
        schema_version=SCHEMA_VERSION,
        kind=KIND,
        state="running",
        title=run.path.name,
        seed=recording.seed,
        command_line=without_secrets(list(command_line)),
        anchor=provenance.clock_anchor(),
        started_at=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions=provenance.versions(),
        upstreams=list(recording.upstreams),
        spec=recording.spec.model_dump(mode="json", by_alias=True),
    )
