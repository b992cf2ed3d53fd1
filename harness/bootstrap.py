"""Makes .venv with exactly what requirements.lock pins: `python3 harness/bootstrap.py`, what `make` does first.

Needs nothing but Python's standard library: no other program on PATH and no home directory. Repeating it is instant: a
stamp in .venv says what it was made from. A .venv without the right stamp (interrupted, outdated, moved, or made by
another Python) is made anew. Runs at the same time wait for each other.

Ends with 0, 2 (interrupted), 3 (pip failed) or 6 (this machine cannot do it). Every Python 3, however old, has to
understand this file well enough to say that it is too old: no f-strings, no annotated variables, nothing newer.
"""

import sys


def fail(code: int, message: str) -> None:
    """End with one sentence."""
    sys.stderr.write("tidegauge: " + message + "\n")
    sys.exit(code)


if sys.version_info < (3, 11):
    fail(
        6,
        "Python 3.11 or newer is needed and %s is %d.%d: install a newer one, or name it with `make PYTHON=python3.12`."
        % ((sys.executable or "python3",) + sys.version_info[:2]),
    )

import collections
import hashlib
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import time
import venv
from pathlib import Path

try:
    import fcntl
except ImportError:
    fail(6, "Tidegauge runs on Linux and macOS only: on Windows, use WSL.")

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "tidegauge.stamp"
MUTEX = ROOT / ".venv.mutex"
LOCK = ROOT / "requirements.lock"
SOURCE_ONLY = "pyspark"
PIP_LINES_SHOWN = 12


def main() -> None:
    """Make .venv unless it is there already."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with MUTEX.open("w") as mutex:
            take(mutex.fileno())
            wanted = fingerprint()
            if not is_made(wanted):
                make(wanted, mutex.fileno())
    except KeyboardInterrupt:
        redraw("")
        fail(2, "interrupted: .venv is incomplete; the next run will rebuild it.")
    except OSError as error:
        fail(6, "%s could not be made (%s): check the space and permissions there." % (VENV, error))


def take(mutex: int) -> None:
    """Wait until no other run is at work; the kernel lets go of the lock however a run ends."""
    try:
        fcntl.flock(mutex, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another run that is making .venv")
        fcntl.flock(mutex, fcntl.LOCK_EX)


def fingerprint() -> str:
    """What .venv depends on: the pins, the project's metadata, the Python, and the place (a .venv cannot be moved)."""
    digest = hashlib.sha256()
    for path in (LOCK, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    for text in (sys.version, sys.base_prefix, str(ROOT)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def is_made(wanted: str) -> bool:
    """Whether .venv was finished from exactly these inputs, and its Python still exists."""
    return STAMP.exists() and STAMP.read_text() == wanted and PYTHON.exists()


def make(wanted: str, mutex: int) -> None:
    """Make .venv anew; the stamp comes last, so that whatever is interrupted has none."""
    say("[1/4] creating .venv")
    create()
    wheels, source = VENV / "wheels.lock", VENV / "source.lock"
    packages = split(wheels, source)
    say("[2/4] installing %d pinned packages" % packages)
    # Wheels only: building from source would fetch build tools that nothing pins.
    pip(["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(wheels)], packages, mutex)
    # Unless it is built with what was just installed: pip cannot do that before it is.
    say("[3/4] installing %s, which is 456 MB to download and about a minute to build" % SOURCE_ONLY)
    built_here = ["--no-binary", SOURCE_ONLY, "--no-build-isolation", "--use-pep517"]
    pip(["--require-hashes", "--no-deps"] + built_here + ["-r", str(source)], 1, mutex)
    say("[4/4] installing tidegauge")
    pip(["--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], 1, mutex)
    STAMP.write_text(wanted)


def split(wheels: Path, source: Path) -> int:
    """Write the lock's packages to two files, the one that has no wheel apart; return how many have one."""
    pins = re.split(r"^(?=[A-Za-z0-9])", LOCK.read_text(), flags=re.MULTILINE)[1:]
    wheels.write_text("".join(pin for pin in pins if not pin.startswith(SOURCE_ONLY + "==")))
    source.write_text("".join(pin for pin in pins if pin.startswith(SOURCE_ONLY + "==")))
    return len(pins) - 1


def create() -> None:
    """An empty virtual environment with pip."""
    if importlib.util.find_spec("ensurepip") is None:
        no_ensurepip()
    if VENV.is_symlink():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)
    try:
        venv.create(VENV, symlinks=True, with_pip=True)
    except subprocess.CalledProcessError:
        no_ensurepip()


def no_ensurepip() -> None:
    """Debian and its kin ship Python without the part that puts pip into a virtual environment."""
    fail(
        6,
        "%s cannot make virtual environments: install what is missing (on Debian and Ubuntu: apt install"
        " python%d.%d-venv), or name another Python with `make PYTHON=...`."
        % ((sys.executable,) + sys.version_info[:2]),
    )


def pip(arguments: list[str], packages: int, mutex: int) -> None:
    """Run pip in .venv, quietly; it holds the lock too, so that nobody gets between should it outlive this process."""
    command = [str(PYTHON), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PIP_USER"] = "0"
    with subprocess.Popen(
        command + ["--progress-bar", "off"] + arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        env=environment,
        pass_fds=[mutex],
    ) as process:
        try:
            last_lines = watch(process, packages)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0:
        for line in last_lines:
            sys.stderr.write("  pip: " + line + "\n")
        fail(3, "pip could not install everything: %s." % remedy("\n".join(last_lines)))


def watch(process: "subprocess.Popen[bytes]", packages: int) -> list[str]:
    """Follow pip until it ends and return its last lines; on a terminal, one line shows how far it is."""
    assert process.stdout is not None
    started = time.monotonic()
    last_lines = collections.deque([""], maxlen=PIP_LINES_SHOWN)
    unfinished, seen, doing = b"", 0, "starting"
    while True:
        if select.select([process.stdout], [], [], 1)[0]:
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for words in (line.decode(errors="replace").split() for line in lines if line.strip()):
                last_lines.append(" ".join(words))
                seen += words[0] in ("Collecting", "Ignoring", "Obtaining")
                if words[0] == "Downloading":
                    wheel = words[1].rpartition("/")[2].split("-")
                    doing = " ".join(wheel[:2] + words[2:])
                elif words[0] == "Building":
                    doing = "building"
                elif words[0] == "Installing":
                    doing = "unpacking"
        redraw("      %d/%d  %.0f s  %s" % (seen, packages, time.monotonic() - started, doing))
    redraw("")
    return [line for line in last_lines if line]


def remedy(said: str) -> str:
    """What to do about a failure of pip, by what it said."""
    if "No space left" in said:
        return "free some disk space, or have TMPDIR name a directory with 2 GB to spare, and try again"
    if "DO NOT MATCH THE HASHES" in said:
        return "a package is not the pinned one, so mistrust the index or mirror it came from, and try again"
    if "No matching distribution" in said and "connection" not in said.lower():
        return "a pinned version does not exist there for this platform and Python, so try another Python or index"
    return "check the network, the proxy and pip's settings, and try again"


def say(text: str) -> None:
    """One line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def redraw(text: str) -> None:
    """Replace the current line of a terminal; elsewhere nothing is shown."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        sys.stdout.write("\r\x1b[K" + text[: width - 1])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
