"""What the documentation says of the code: links and commands that are there, and code that is the code."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import typer

import checkers
import nemesis
import workloads
from checkers.core.families import FAMILIES, families_of
from harness.commands.main import app
from harness.foundation.errors import UsageError
from harness.foundation.limits import Limits
from harness.judging.policies import POLICIES
from harness.runs.scenario import load
from harness.tap.broken import BROKEN
from nemesis import FAULTS, check_sense, families_in
from tests.support import REPOSITORY
from tests.support.doc_pages import PAGES
from workloads import WORKLOADS, workloads_in
from workloads.clients import stacks
from workloads.clients.stacks import STACKS, stacks_in

GUIDE = REPOSITORY / "docs" / "extending.md"
PROGRAM: Any = typer.main.get_command(app)
HELP = {"-h", "--help"}
_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"^(?:\$ )?(?:[\w./]*/)?tidegauge (.+)$")
_ENDS = re.compile(r"\s(?:#|&&|\||>|;)\s.*$|\s+#.*$")  # where a shell, or a reader, takes the command to be over
_QUOTED = re.compile(r"# (?P<file>[\w/]+\.py)\n")
_WORKED = re.compile(r"# (?P<kind>checker|workload|client|fault): (?P<name>\w+\.py)\n")
_LEFT_OUT = re.compile(r"^\s*\.\.\.,?$", re.MULTILINE)
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """The text without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The headings as links name them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def commands(page: Path) -> Iterator[str]:
    """What follows `tidegauge` in the blocks that a shell could have, and in the text."""
    text = page.read_text(encoding="utf-8")
    blocks = [block["text"] for block in _FENCE.finditer(text) if block["kind"] in {"", "console"}]
    indented = [line[4:] for line in prose(page).splitlines() if line.startswith("    ")]
    for line in (*"".join(blocks).splitlines(), *indented, *_INLINE.findall(prose(page))):
        if found := _COMMAND.match(line.strip()):
            yield _ENDS.sub("", found[1])


def python_blocks(page: Path = GUIDE) -> list[str]:
    """The Python of a page."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [block["text"] for block in found if block["kind"] == "python"]


def wrong(command: str) -> str:
    """What a command line has that the program does not know; nothing if it knows all of it."""
    at = PROGRAM
    for word in words(command):
        if word.startswith("-"):
            known = {name for param in at.params for name in (*param.opts, *param.secondary_opts)} | HELP
            if word.partition("=")[0] not in known:
                return f"{at.name} has no option {word}"
        elif hasattr(at, "commands") and re.fullmatch(r"[a-z-]+", word):
            if word not in at.commands:
                return f"there is no command {word}"
            at = at.commands[word]
    return ""


def senseless(command: str) -> str:
    """What is wrong with the faults that a command names; nothing if they can be had."""
    given = words(command)
    plans = [value for option, value in pairwise(given) if option in {"-n", "--nemesis"} and not value.isupper()]
    try:
        check_sense(load(None, {"workload": "stream", "nemesis": plans}).nemesis)
    except UsageError as error:
        return f"{command}: {error}"
    return ""


def words(command: str) -> list[str]:
    """As a shell would take it, or else as it stands."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, and to a heading of it where they name one."""
    dead = []
    for link in _LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(link)
    assert not dead


@by_page
def test_commands_and_their_options_exist(page: Path) -> None:
    """As the program itself has them."""
    assert [found for command in commands(page) if (found := wrong(command))] == []


@by_page
def test_faults_that_commands_name_make_sense(page: Path) -> None:
    """As the program takes them."""
    assert [found for command in commands(page) if (found := senseless(command))] == []


def test_commands_are_looked_at() -> None:
    """Wherever they stand, and what is wrong with them is seen."""
    assert sum(1 for page in PAGES for _ in commands(page)) > 50
    assert wrong("run notes --seed 7 -w stream --set acks=all") == ""
    assert wrong("cluster up --json") == ""
    assert wrong("run --sede 7") == "run has no option --sede"
    assert wrong("cluster rise") == "there is no command rise"
    assert senseless("run -w stream -n kill,pause:leader --nemesis isolate:follower") == ""
    assert "cannot be aimed at" in senseless("run -w stream -n isolate:leader,pause")


@pytest.mark.parametrize("file", sorted((REPOSITORY / "docs" / "examples").glob("*.yml")), ids=lambda file: file.name)
def test_pipelines_install_what_there_is(file: Path) -> None:
    """A checkout, until there is a release; what they run exists."""
    released = "## 0.1.0 (unreleased)" not in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    (installed,) = (line for line in lines if "pip install" in line and not line.startswith("#"))
    assert installed.endswith("pip install tidegauge" if released else "pip install ./tidegauge")
    (ran,) = (line.partition("tidegauge suite ")[2] for line in lines if "tidegauge suite" in line)
    assert not wrong(f"suite {ran}")


@by_page
def test_imports_work(page: Path) -> None:
    """Of all Python that is no quotation."""
    for block in python_blocks(page):
        if not (_QUOTED.match(block) or _WORKED.match(block)):
            body = ast.parse(block).body
            imports: list[ast.stmt] = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
            exec(compile(ast.Module(imports, []), str(page), "exec"), {})


def test_code_of_the_guide_is_the_code() -> None:
    """A block that opens with the name of a file is a part of it, but for what `...` leaves out."""
    quotes = [(block, file) for block in python_blocks() if (file := _QUOTED.match(block))]
    for block, named in quotes:
        text = block[named.end() :]
        compile(dedent(text), str(GUIDE), "exec", dont_inherit=True)
        rest = (REPOSITORY / named["file"]).read_text(encoding="utf-8")
        for part in (part.strip("\n") for part in _LEFT_OUT.split(text)):
            _, found, rest = rest.partition(part)
            assert found == part, f"{named['file']} does not have this, or not in this order:\n{part}"
    assert len(quotes) >= 4


@dataclass(frozen=True)
class Worked:
    """An example of the guide that is a file of its own, with its test."""

    kind: str
    module: str
    package: ModuleType  # where the guide says that it is saved
    found: Callable[[str], dict[str, Any]]  # what is found in a directory by being there, by name
    registry: dict[str, Any]
    name: str


def families_by_name(_: str) -> dict[str, Any]:
    """Those of the product are there as well."""
    found = {family.name: family for family in families_of(checkers)}
    ours = {family.name for family in FAMILIES}
    assert ours < found.keys()
    return {name: family for name, family in found.items() if name not in ours}


def faults_by_name(directory: str) -> dict[str, Any]:
    """Of all families in there."""
    return {fault.name: fault for faults in families_in([directory]).values() for fault in faults}


WORKED = (
    Worked("checker", "late_acks", checkers, families_by_name, {}, "late acks"),
    Worked("workload", "bursts", workloads, lambda directory: workloads_in([directory]), WORKLOADS, "bursts"),
    Worked("client", "one_by_one", stacks, lambda directory: stacks_in([directory]), STACKS, "kafka-python-one-by-one"),
    Worked("fault", "slow_acks", nemesis, faults_by_name, FAULTS, "slow-acks"),
)


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Examples that a test imported are gone after it."""
    yield
    for example in WORKED:
        sys.modules.pop(f"{example.package.__name__}.{example.module}", None)
        sys.modules.pop(example.module, None)
        vars(example.package).pop(example.module, None)


def test_every_worked_example_is_run() -> None:
    """None is shown that nobody tries."""
    assert {match["kind"] for block in python_blocks() if (match := _WORKED.match(block))} == {e.kind for e in WORKED}


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("example", WORKED, ids=lambda example: example.kind)
def test_a_worked_example_is_found_and_its_test_passes(
    example: Worked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, saved where the guide says, and registered nowhere."""
    blocks = [(match, block) for block in python_blocks() if (match := _WORKED.match(block))]
    files = {match["name"]: block[match.end() :] for match, block in blocks if match["kind"] == example.kind}
    file, test_file = f"{example.module}.py", f"test_{example.module}.py"
    assert files.keys() == {file, test_file}
    (tmp_path / file).write_text(files[file], encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(example.package, "__path__", [*example.package.__path__, str(tmp_path)])
    found = example.found(str(tmp_path))
    assert list(found) == [example.name]
    monkeypatch.setitem(example.registry, example.name, found[example.name])
    namespace: dict[str, Any] = {"__name__": test_file}
    exec(compile(files[test_file], test_file, "exec", dont_inherit=True), namespace)
    tests = [made for name, made in namespace.items() if name.startswith("test_")]
    fixtures = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    for test in tests:
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    assert tests


def test_snippets_of_the_guide_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown without the name of a file can be typed into a Python shell, one after the other."""
    monkeypatch.chdir(REPOSITORY)
    names: dict[str, Any] = {"__name__": "extending"}
    snippets = [block for block in python_blocks() if not (_QUOTED.match(block) or _WORKED.match(block))]
    for snippet in snippets:
        exec(compile(snippet, str(GUIDE), "exec", dont_inherit=True), names)
    assert len(snippets) >= 5


@pytest.mark.parametrize(
    ("page", "names"), [("workloads.md", WORKLOADS), ("nemeses.md", FAULTS), ("broken.md", BROKEN)]
)
def test_pages_have_all_that_there_is(page: str, names: dict[str, object]) -> None:
    """Each in a row of a table."""
    rows = re.findall(r"^\| (`.*?) \|", (REPOSITORY / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([a-z-]+)", row)}
    assert set(names) - told == set()


def test_the_page_of_verdicts_has_all_that_is_judged() -> None:
    """Every anomaly that has a policy, those inside of a poll and against the order of time with the others; limits."""
    page = (REPOSITORY / "docs" / "verdicts.md").read_text(encoding="utf-8")
    judged = {name.removeprefix("int-").removesuffix("-realtime") for name in POLICIES}
    assert sorted(name for name in judged if not re.search(rf"(?<![\w-]){name}(?![\w-])", page)) == []
    limits = {f"| `{name}` | {field.default:g} |" for name, field in Limits.model_fields.items()}
    assert sorted(row for row in limits if row not in page) == []
