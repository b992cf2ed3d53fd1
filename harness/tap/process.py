"""The tap's process: `python -P -m harness.tap.process`.

Like a worker it reads one line of JSON from standard input (`TapConfig`), then lines of control, and writes its
standing to standard output. It ends when it is told to stop, and when whoever started it is gone; never at Ctrl-C,
which is the runner's.

Control: {"stop": true}, {"bend": {a rule}}, {"unbend": NAME}, {"release": NAME}. A rule takes the place of one of its
name. What is said afterwards tells how many lines were read by then.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.foundation.config import Model, parse
from harness.foundation.errors import TidegaugeError
from harness.foundation.security import SecuritySpec
from harness.history.recorder import Recorder
from harness.tap.broken import make_broken
from harness.tap.codec import TopicNames
from harness.tap.exchange import TapContext
from harness.tap.exchange_recorder import ExchangeRecorder
from harness.tap.proxy import UNKNOWN_NODE, Proxy
from harness.tap.rule_bend import RuleBend
from harness.tap.rules import Rule, bends

STDIN, STDOUT = 0, 1
STATUS_EVERY_S = 0.5
FLUSH_EVERY_S = 0.05
READ_BYTES = 65536
LAST_WORD_S = 2.0
READY, RUNNING, ENDED, FAILED = "ready", "running", "ended", "failed"


def place_of(address: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Upstream(Model):
    """A broker: its number (-1 when nobody knows it yet), where it is, and where its tap listens (0: anywhere)."""

    node: int = UNKNOWN_NODE
    address: str
    port: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        return place_of(self.address)


class TapConfig(Model):
    """All that the process is told at its start."""

    process: int
    segment: Path
    upstreams: tuple[Upstream, ...]
    security: SecuritySpec = SecuritySpec()
    topics: dict[str, int] = {}
    cluster: tuple[str, ...] = ()  # addresses of the cluster under test; none: whatever answers name
    rules: tuple[Rule, ...] = ()
    broken: tuple[str, ...] = ()
    seed: int = 0


class _Process:
    """What runs in here."""

    def __init__(self, config: TapConfig, voice: Voice) -> None:
        self.config = config
        self.voice = voice
        recorder = Recorder(config.segment, config.process, {"role": "tap"})
        self.recorder = recorder
        for name, number in config.topics.items():
            recorder.topic(number, name)
        self.seer = ExchangeRecorder(recorder, config.topics)
        alone = config.security.model_copy(update={"mechanism": None})  # users and passwords are the clients' affair
        tls = alone.with_secrets().tls_context()
        self.proxy = Proxy(self.seer, TapContext(TopicNames(), {}), tls, frozenset(map(place_of, config.cluster)))
        self.stopped = asyncio.Event()
        self._unread = b""
        self._lines = 0  # of control, so far

    async def run(self) -> None:
        """Until told to stop."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unexpected)
        for bend in (
            *(make_broken(text, self.config.seed) for text in self.config.broken),
            *bends(self.config.rules, self.config.seed),
        ):
            self.proxy.bend(bend)
        for upstream in self.config.upstreams:
            self.proxy.open(upstream.node, upstream.place, upstream.port)
        loop.add_signal_handler(signal.SIGTERM, self.stopped.set)
        os.set_blocking(STDIN, False)
        loop.add_reader(STDIN, self._read)
        self.voice.say(READY, self.standing())
        shown_at = loop.time()
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), FLUSH_EVERY_S)
            self.seer.flush()
            if self.seer.disk_error:
                raise self.seer.disk_error
            if loop.time() - shown_at > STATUS_EVERY_S:
                shown_at = loop.time()
                self.voice.say(RUNNING, self.standing())
        loop.remove_reader(STDIN)
        await self.proxy.close()
        self.recorder.close()

    def standing(self) -> dict[str, Any]:
        """Where it listens, and what it counted."""
        counts = self.proxy.counts
        return {
            "taps": [
                {"node": tap.node, "host": tap.upstream[0], "upstream_port": tap.upstream[1], "port": tap.port}
                for tap in self.proxy.taps
            ],
            "connections": counts.connections,
            "exchanges": counts.exchanges,
            "bent": counts.bent,
            "not_understood": counts.not_understood + self.seer.not_understood,
            "unknown_apis": self.seer.unknown_apis,
            "refused": counts.refused,
            "lines": self._lines,
            "rules": [bend.name for bend in self.proxy.bends if isinstance(bend, RuleBend)],
            "acted": self.proxy.acted,
            "resent": self.proxy.resends.counts,
            "idle": self.proxy.idle,
            "troubles": counts.troubles,
        }

    def _read(self) -> None:
        try:
            chunk = os.read(STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.stopped.set()
            return
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self._lines += 1
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, TidegaugeError) as error:
                self.proxy.counts.trouble(f"the tap got a command that it does not understand: {error}")

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("stop"):
            self.stopped.set()
        if "bend" in message:
            for bend in bends((parse(Rule, message["bend"], "a rule"),), self.config.seed):
                self._unbend(bend.name)
                self.proxy.bend(bend, late=True)
        if name := message.get("release"):
            for bend in self._named(name):
                bend.release()
        if name := message.get("unbend"):
            self._unbend(name)

    def _unbend(self, name: str) -> None:
        for bend in self._named(name):
            bend.cancel()
        self.proxy.unbend(name)

    def _named(self, name: str) -> list[RuleBend]:
        return [bend for bend in self.proxy.bends if isinstance(bend, RuleBend) and bend.name == name]

    def _unexpected(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something went wrong where nobody waits for it."""
        error = context.get("exception")
        if isinstance(error, OSError):
            return  # a peer that is gone
        self.proxy.counts.trouble(f"the tap met what it did not expect: {context.get('message')} ({error})")
        if error is not None:
            traceback.print_exception(error)


class Voice:
    """What is told to whoever started us; a line goes out whole or waits for the next one, which takes its place."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that was begun

    def say(self, state: str, standing: Mapping[str, Any], patience_s: float = 0.0) -> None:
        """Say it; without patience it is dropped when nobody listens."""
        line = json.dumps({"state": state, **standing}).encode() + b"\n"
        deadline_s = time.monotonic() + patience_s
        while not self._write(line) and time.monotonic() < deadline_s:
            time.sleep(0.001)

    def _write(self, line: bytes) -> bool:
        """Whether the line is on its way, after what was left of the one before."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(STDOUT, self._rest) :]
            self._rest = line[os.write(STDOUT, line) :]
        except BlockingIOError:
            return False
        except OSError:
            return True  # nobody will ever listen
        return not self._rest or self._write_rest()

    def _write_rest(self) -> bool:
        with suppress(OSError):
            while self._rest:
                self._rest = self._rest[os.write(STDOUT, self._rest) :]
        return True


def first_line() -> bytes:
    """The configuration; empty when whoever started us is gone."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(STDIN, 1)  # what follows is read by the loop
        if not byte:
            return b""
        line += byte
    return line


def main() -> int:
    """Be a tap; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_blocking(STDOUT, False)  # who does not listen must not hold up everybody's traffic
    line, voice = first_line(), Voice()
    if not line:
        return 0
    try:
        process = _Process(parse(TapConfig, json.loads(line), "the tap's configuration"), voice)
        asyncio.run(process.run())
    except Exception as error:  # noqa: BLE001 - whatever it is, the runner has to hear of it
        traceback.print_exc()
        said = str(error) if isinstance(error, TidegaugeError) else f"{type(error).__name__}: {error}"
        voice.say(FAILED, {"detail": said}, LAST_WORD_S)
        return 1
    voice.say(ENDED, process.standing(), LAST_WORD_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
