"""A suite on paper: what is tried again, what stops it, what is on disk after each try, and what is run again later."""

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError, Exit, Interrupted, UsageError
from harness.foundation.interrupts import StopRequest
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.report.github import VARIABLE
from harness.runs.runner import Recorded
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.suite import state as states
from harness.suite.ci_output import CiFiles, lines
from harness.suite.outcome import UncheckedRun as Waiting
from harness.suite.outcome import exit_code
from harness.suite.running import run_suite
from harness.suite.spec import Suite
from harness.suite.state import State
from harness.suite.tries import left_behind
from tests.support.scripted_suites import STREAM, Paper, PaperPool, Unchecked, as_planned, checked, suite

THREE = "".join(STREAM.replace('"stream"', f'"{name}"', 1) for name in ("a", "b", "c"))
DAMAGED = b'{"suite": "x", "title": "", "seed": 1, "flags": {}, "started_at": "", "cases": %s}'
NO_NODE = ClusterError("node 2 died during start-up", "see its log")


def play(found: Suite, paper: Paper, known: State | None = None, **how: Any) -> State:
    """Run a suite with these outcomes."""
    known = known or states.begin(found, found.cases, 7, {})
    planned = how.pop("planned", as_planned(found.cases))
    return run_suite(known, planned, paper.hands(how.pop("tell", None)), how.pop("pool", PaperPool()), **how)


def statuses(state: State) -> list[str]:
    """How cases ended."""
    return [each.status for each in state.outcomes]


def died() -> Checked:
    """A run of which nothing is known because a worker of ours died."""
    sentence = "process 1 (producer) died"
    return checked("unknown", dead_workers=[sentence])


def test_a_finding_is_never_tried_again(tmp_path: Path) -> None:
    """What is illegal once is illegal."""
    paper = Paper(b=[checked("invalid"), checked()])
    ended = play(suite(tmp_path, THREE), paper)
    assert (statuses(ended), paper.ran) == (["passed", "failed", "passed"], ["a", "b", "c"])
    assert exit_code(ended.outcomes) is Exit.INVALID
    (one,) = ended.outcome("b").tries
    assert one.unmet == ("the verdict is invalid instead of valid: lost-write ×1",)
    assert one.cause == "acknowledged-then-lost"


def test_trouble_of_ours_is_tried_again_on_a_fresh_cluster_and_told(tmp_path: Path) -> None:
    """Once, by default."""
    paper, pool = Paper(b=[NO_NODE, checked()]), PaperPool()
    ended = play(suite(tmp_path, THREE), paper, pool=pool)
    assert (statuses(ended), paper.ran) == (["passed"] * 3, ["a", "b", "b", "c"])
    assert ended.outcome("b").tries[0].retried == (str(NO_NODE),)
    assert pool.told == ["renew: the last run ended in trouble"]
    assert pool.ended


@pytest.mark.parametrize("error", [NO_NODE, OSError(28, "no space"), RuntimeError("a bug"), UsageError("gone", "x")])
def test_trouble_that_stays_is_told_as_such(tmp_path: Path, error: Exception) -> None:
    """The other cases are run all the same."""
    paper = Paper(b=[error])
    ended = play(suite(tmp_path, THREE), paper)
    assert (statuses(ended), paper.ran) == (["passed", "trouble", "passed"], ["a", "b", "b", "c"])
    assert exit_code(ended.outcomes) is Exit.HARNESS_ERROR


def test_how_often_it_is_tried_again_can_be_said(tmp_path: Path) -> None:
    """Not at all, too."""
    paper = Paper(b=[NO_NODE])
    play(suite(tmp_path, THREE), paper, attempts=1)
    assert paper.ran == ["a", "b", "c"]


def test_what_nobody_knows_is_tried_again_only_if_that_is_our_doing(tmp_path: Path) -> None:
    """A run that read nothing says something about the broker, perhaps."""
    paper = Paper(a=[checked("unknown")], b=[died(), checked()])
    paper_says = play(suite(tmp_path, THREE), paper)
    assert statuses(paper_says) == ["unknown", "unknown", "passed"]  # the second one read nothing, either
    assert exit_code(paper_says.outcomes) is Exit.UNKNOWN


def test_a_finding_outweighs_trouble_and_that_what_nobody_knows(tmp_path: Path) -> None:
    """The exit code is that of the worst."""
    ended = play(suite(tmp_path, THREE), Paper(a=[checked("unknown")], b=[NO_NODE], c=[checked("invalid")]))
    assert [exit_code(ended.outcomes[:count]) for count in (1, 2, 3)] == [
        Exit.UNKNOWN,
        Exit.HARNESS_ERROR,
        Exit.INVALID,
    ]


def test_tries_are_counted(tmp_path: Path) -> None:
    """And as many have to go as expected as the suite says."""
    text = STREAM + "repeat = 3\nexpect = { anomalies = ['lost-write'], at_least = {} }"
    outcomes = [checked(), checked("invalid"), checked()]
    for needed, status in ((1, "passed"), (2, "failed")):
        paper = Paper(stream=list(outcomes))
        ended = play(suite(tmp_path, text.replace("{}", str(needed), 1)), paper)
        assert (statuses(ended), ended.outcomes[0].rate) == ([status], "1 of 3")
        assert len(set(paper.seeds)) == 3


def test_the_first_failure_can_be_the_last_case(tmp_path: Path) -> None:
    """With -x; what was not run is pending."""
    paper = Paper(a=[checked("invalid")])
    found = suite(tmp_path, THREE)
    ended = play(found, paper, stop_at_first=True)
    assert (statuses(ended), paper.ran) == (["failed", "pending", "pending"], ["a"])
    paper = Paper()
    assert play(found, paper, ended, stop_at_first=True) == ended
    assert paper.ran == []


@pytest.mark.parametrize("how", [KeyboardInterrupt(), Interrupted("stopped", "undone"), "heard in time"])
def test_ctrl_c_ends_the_suite_after_the_run_that_goes_on(tmp_path: Path, how: Any) -> None:
    """Of which nothing is kept, though it is checked: it is run again."""
    outcome = checked("valid", interrupted=True) if isinstance(how, str) else how
    paper, pool = Paper(b=[outcome]), PaperPool()
    ended = play(suite(tmp_path, THREE), paper, pool=pool)
    assert (statuses(ended), paper.ran) == (["passed", "pending", "pending"], ["a", "b"])
    assert pool.told == ["no cluster"], "it does not wait for a check"
    assert ended.interrupted
    assert pool.ended
    assert exit_code(ended.outcomes, interrupted=True) is Exit.INTERRUPTED


def test_what_was_recorded_before_ctrl_c_is_kept(tmp_path: Path) -> None:
    """It came when all was recorded, and so says nothing about the run; no other one is begun."""
    paper = Paper(b=[checked(stopped=True)])
    ended = play(suite(tmp_path, THREE), paper)
    assert (statuses(ended), paper.ran, ended.interrupted) == (["passed", "passed", "pending"], ["a", "b"], True)
    assert [each.status for each in paper.states[-1].outcomes] == statuses(ended)


class Meeting(Paper):
    """The check of a run ends when the next one is being recorded, or not at all."""

    def __init__(self, **outcomes: Any) -> None:
        super().__init__(**outcomes)
        self.alone = False  # whether somebody waited in vain
        self._next = threading.Semaphore(0)

    def record(self, scenario: Scenario, shared: SharedResources) -> Recorded:
        """The one before can be checked now."""
        self._next.release()
        return super().record(scenario, shared)

    def check(self, recorded: Recorded, session: object) -> Checked:
        """Not before there is another one."""
        if recorded.run.path.parent.name != "c":
            self._next.acquire()  # its own
            self.alone = self.alone or not self._next.acquire(timeout=60)
            self._next.release()
        return super().check(recorded, session)


def test_a_run_is_recorded_while_the_one_before_it_is_checked(tmp_path: Path) -> None:
    """What comes of it is told in the same order."""
    paper = Meeting(b=[checked("invalid")])
    ended = play(suite(tmp_path, THREE), paper)
    assert (statuses(ended), paper.ran, paper.alone) == (["passed", "failed", "passed"], ["a", "b", "c"], False)
    assert [each.name for each in paper.ended] == ["a", "b", "c"]


def test_a_cluster_that_something_may_be_left_in_is_not_used_again(tmp_path: Path) -> None:
    """That is known before the check, and the next run does not wait for that."""
    pool = PaperPool()
    play(suite(tmp_path, THREE), Paper(a=[checked(suspicion="a rule is still there")]), pool=pool)
    assert pool.told == ["spoil: a rule is still there"]


class Impatient(Paper):
    """Somebody presses Ctrl-C while the last run is checked, as often as told, and then waits in vain."""

    def __init__(self, times: int, *, waits: bool = False, **outcomes: Any) -> None:
        super().__init__(**outcomes)
        self._times, self._waits = times, waits
        self.over = threading.Event()

    def check(self, recorded: Recorded, session: object) -> Checked:
        """When the suite waits for it."""
        if recorded.run.path.parent.name == "b":
            for heard in range(self._times):  # two that nobody heard in between would be one
                wait_until(lambda heard=heard: _heard() >= heard, 60, "the suite has heard")  # type: ignore[misc]
                os.kill(os.getpid(), signal.SIGINT)
            if self._waits:
                self.over.wait(60)
        return super().check(recorded, session)


def _heard() -> int:
    """How often it was pressed since somebody listens; -1 as long as nobody does."""
    listener = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return listener.asked if isinstance(listener, StopRequest) else -1


TWO = "".join(STREAM.replace('"stream"', f'"{name}"', 1) for name in ("a", "b"))


def test_ctrl_c_while_the_last_run_is_checked_is_remembered(tmp_path: Path) -> None:
    """What was recorded counts all the same."""
    ended = play(suite(tmp_path, TWO), Impatient(1))
    assert (statuses(ended), ended.interrupted) == (["passed", "passed"], True)


@pytest.mark.parametrize(("times", "before"), [(2, {}), (1, {"stopped": True})])
def test_the_second_ctrl_c_leaves_at_once(tmp_path: Path, times: int, before: dict[str, Any]) -> None:
    """Wherever the first one came; what is still being checked is pending, and stays so."""
    paper = Impatient(times, waits=True, b=[checked(**before)])
    ended = play(suite(tmp_path, TWO), paper)
    told = len(paper.states)
    paper.over.set()
    assert (statuses(ended), ended.interrupted) == (["passed", "pending"], True)
    assert len(paper.states) == told


def test_trouble_that_only_a_check_finds_is_tried_again(tmp_path: Path) -> None:
    """After the run that went on by then, on a fresh cluster and with another session."""
    paper, pool = Paper(a=[Unchecked("Spark is gone"), checked()]), PaperPool()
    ended = play(suite(tmp_path, THREE), paper, pool=pool)
    assert (statuses(ended), paper.ran) == (["passed"] * 3, ["a", "b", "a", "c"])
    assert "Spark is gone" in ended.outcome("a").tries[0].retried[0]
    assert pool.told == ["renew: the last run ended in trouble"]


def test_a_check_that_fails_again_is_trouble(tmp_path: Path) -> None:
    """Of the last case, too, after which nothing else is recorded."""
    paper = Paper(c=[Unchecked("Spark is gone")])
    ended = play(suite(tmp_path, THREE), paper)
    assert (statuses(ended), paper.ran) == (["passed", "passed", "trouble"], ["a", "b", "c", "c"])


def test_what_cannot_be_written_down_is_an_error(tmp_path: Path) -> None:
    """Not a verdict that nobody hears of."""

    def tell(state: State) -> None:
        if state.outcome("a").tries:
            raise OSError(28, "no space")

    pool = PaperPool()
    with pytest.raises(OSError, match="no space"):
        play(suite(tmp_path, THREE), Paper(), tell=tell, pool=pool)
    assert pool.ended


def test_a_case_that_cannot_be_had_here_is_told_and_not_run(tmp_path: Path) -> None:
    """Nothing but such cases is no success."""
    found = suite(tmp_path, THREE)
    planned = as_planned(found.cases)
    planned[1] = replace(planned[1], skipped="this machine has no clocks")
    paper = Paper()
    ended = run_suite(states.begin(found, found.cases, 7, {}), planned, paper.hands(), PaperPool())
    assert (statuses(ended), paper.ran) == (["passed", "skipped", "passed"], ["a", "c"])
    assert exit_code(ended.outcomes) is Exit.VALID
    assert exit_code(ended.outcomes[1:2]) is Exit.CANNOT_HERE


def test_a_run_that_spoils_its_cluster_says_so(tmp_path: Path) -> None:
    """So that the next one gets another."""
    found, pool = suite(tmp_path, STREAM), PaperPool()
    planned = [replace(each, spoils=True) for each in as_planned(found.cases)]
    run_suite(states.begin(found, found.cases, 7, {}), planned, Paper().hands(), pool)
    assert [text.partition(":")[0] for text in pool.told] == ["spoil"]


def on_disk(directory: Path) -> list[str]:
    """What suite.json says now."""
    return [case["status"] for case in json.loads((directory / states.STATE_FILE).read_text())["cases"]]


def test_everything_is_on_disk_after_each_try(tmp_path: Path) -> None:
    """State, JUnit XML in two places, summaries; what others wrote for GitHub stays."""
    github, junit = tmp_path / "github.md", tmp_path / "deep" / "junit.xml"
    github.write_text("before us\n")
    telling = CiFiles(tmp_path, junit, {VARIABLE: str(github)})
    seen: list[tuple[list[str], list[str]]] = []

    def tell(state: State) -> None:
        telling.tell(state)
        cases = ET.fromstring(junit.read_bytes()).iter("testcase")
        seen.append(
            (on_disk(tmp_path), [next((part.tag for part in case if part.tag != "properties"), "") for case in cases])
        )

    play(suite(tmp_path, THREE), Paper(b=[checked("invalid")], c=[NO_NODE]), tell=tell)
    assert [statuses for statuses, _ in seen] == [
        ["pending"] * 3,
        ["passed", "pending", "pending"],
        ["passed", "failed", "pending"],
        ["passed", "failed", "trouble"],
    ]
    assert [tags for _, tags in seen][1::2] == [["", "skipped", "skipped"], ["", "failure", "error"]]
    assert (tmp_path / states.JUNIT_FILE).read_bytes() == junit.read_bytes()
    text = github.read_text()
    assert text.startswith("before us\n### Suite mine")
    assert text.count("### Suite") == 1
    assert "1 passed · 1 failed · 1 trouble" in text


def test_a_failure_tells_the_cause_and_the_report(tmp_path: Path) -> None:
    """To whoever reads the XML."""
    junit = tmp_path / "junit.xml"
    telling = CiFiles(tmp_path, junit, {})
    play(suite(tmp_path, STREAM), Paper(stream=[checked("invalid")]), tell=telling.tell)
    (failure,) = ET.fromstring(junit.read_bytes()).iter("failure")
    assert failure.get("message") == "the verdict is invalid instead of valid: lost-write ×1"
    for said in ("cause: ", "lost-write ×1", "/store/x/y"):
        assert said in (failure.text or "")


def again(tmp_path: Path, found: Suite, left: State, **how: Any) -> tuple[State, Paper]:
    """Go on with what was left, read back from the disk."""
    states.write(tmp_path, left)
    known, cases = states.resumed(states.read(tmp_path), found)
    paper = Paper()
    assert [case.name for case in cases] == [each.name for each in left.outcomes]
    return play(found, paper, known, **how), paper


def test_what_is_finished_is_not_run_again(tmp_path: Path) -> None:
    """Findings and what nobody knows included; trouble and what was stopped is run again."""
    found = suite(tmp_path, THREE)
    left = play(found, Paper(a=[checked("invalid")], b=[NO_NODE], c=[KeyboardInterrupt()]))
    ended, paper = again(tmp_path, found, left)
    assert (statuses(ended), paper.ran) == (["failed", "passed", "passed"], ["b", "c"])


def test_tries_that_are_there_are_kept(tmp_path: Path) -> None:
    """The one that is missing has the seed that it would have had."""
    found = suite(tmp_path, STREAM + "repeat = 3")
    whole = Paper()
    play(found, whole)
    left = play(found, Paper(stream=[checked(), NO_NODE, NO_NODE, checked()]))
    ended, paper = again(tmp_path, found, left)
    assert (statuses(ended), paper.seeds) == (["passed"], [whole.seeds[1]])
    assert sorted(one.number for one in ended.outcomes[0].tries) == [1, 2, 3]


NO_CLOCKS = "this machine has no clocks"


def not_here(found: Suite) -> dict[str, Any]:
    """On a machine that can do none of it."""
    return {"planned": [replace(each, skipped=NO_CLOCKS) for each in as_planned(found.cases)]}


def test_what_was_found_stays_found_where_the_case_cannot_be_had_any_more(tmp_path: Path) -> None:
    """Only what is still to be run is skipped: in the table, the XML and the exit code."""
    found = suite(tmp_path, THREE)
    left = play(found, Paper(b=[checked("invalid")], c=[KeyboardInterrupt()]))
    telling = CiFiles(tmp_path, None, {})
    ended, paper = again(tmp_path, found, left, tell=telling.tell, **not_here(found))
    assert (statuses(ended), paper.ran) == (["passed", "failed", "skipped"], [])
    assert exit_code(ended.outcomes) is Exit.INVALID
    (failure,) = ET.parse(tmp_path / states.JUNIT_FILE).iter("failure")
    assert "lost-write" in (failure.get("message") or "")


@pytest.mark.parametrize(
    ("needed", "first", "status", "said"),
    [
        (3, "invalid", "failed", "only 1 of 3 tries were made"),
        (3, "valid", "skipped", "1 of 1 tries as expected, 3 needed, and the rest cannot be had here"),
        (2, "invalid", "skipped", "0 of 1 tries as expected, 2 needed, and the rest cannot be had here"),
        (1, "valid", "passed", "only 1 of 3 tries were made"),
    ],
)
def test_tries_that_cannot_be_made_any_more_decide_nothing(
    tmp_path: Path, needed: int, first: str, status: str, said: str
) -> None:
    """Those that were made do, if whatever the others might bring changes nothing; where they can be made, they are."""
    found = suite(tmp_path, STREAM + f"repeat = 3\nexpect = {{ verdict = 'valid', at_least = {needed} }}")
    left = play(found, Paper(stream=[checked(first), KeyboardInterrupt()]))
    ended, paper = again(tmp_path, found, left, **not_here(found))
    assert (statuses(ended), paper.ran) == ([status], [])
    told = "\n".join(lines(ended.outcomes[0]))
    assert said in told
    assert NO_CLOCKS in told
    assert again(tmp_path, found, ended)[1].ran == ["stream", "stream"]


def test_what_changed_in_the_file_is_run_again(tmp_path: Path) -> None:
    """And nothing else; a case that is gone is an error."""
    left = play(suite(tmp_path, THREE), Paper())
    changed = suite(tmp_path, THREE.replace("rate = 100", "rate = 200", 1))
    assert again(tmp_path, changed, left)[1].ran == ["a"]
    with pytest.raises(UsageError, match="'c' is no longer"):
        again(tmp_path, suite(tmp_path, THREE.replace('"c"', '"d"')), left)


def test_which_run_is_to_be_checked_is_kept_before_it_is(tmp_path: Path) -> None:
    """For those who go on if the suite is killed by then; one that was cut short does not count."""
    paper = Paper(a=[Unchecked("Spark is gone"), checked()], c=[checked(interrupted=True)])
    ended = play(suite(tmp_path, THREE), paper)
    left = [[(one.number, one.run) for each in state.outcomes for one in each.unchecked] for state in paper.kept]
    assert left[0] == [(1, "/store/a/1")]
    assert [(1, "/store/b/2")] in left, "nobody goes back to what ended in trouble"
    assert (1, "/store/a/3") in left[-1]
    assert not any(each.unchecked for each in ended.outcomes)


def killed(tmp_path: Path, found: Suite) -> tuple[State, Path]:
    """A suite whose first run was recorded, and not checked."""
    run = tmp_path / "store" / "a" / "1"
    begun = states.begin(found, found.cases, 7, {})
    before = Waiting(1, str(run), 5.0, ("node 2 died",))
    return begun.having(begun.outcome("a").with_run(before)), run


def gone_on(tmp_path: Path, found: Suite, left: State, paper: Paper, **how: Any) -> State:
    """Go on with a suite that was killed, with these runs."""
    states.write(tmp_path, left)
    return play(found, paper, states.resumed(states.read(tmp_path), found)[0], **how)


def test_what_was_recorded_before_a_kill_is_checked_and_counts(tmp_path: Path) -> None:
    """Run again, a rare finding would be tried again."""
    found, paper = suite(tmp_path, THREE), Paper()
    left, run = killed(tmp_path, found)
    paper.recorded_before(run, checked("invalid"))
    ended = gone_on(tmp_path, found, left, paper)
    assert (statuses(ended), paper.ran, paper.troubles) == (["failed", "passed", "passed"], ["b", "c"], [])
    (one,) = ended.outcome("a").tries
    assert (one.number, one.retried, one.took_s >= 5) == (1, ("node 2 died",), True)


def test_what_was_recorded_counts_also_where_the_case_cannot_be_had_any_more(tmp_path: Path) -> None:
    """A check needs no cluster."""
    found, paper = suite(tmp_path, THREE), Paper()
    left, run = killed(tmp_path, found)
    paper.recorded_before(run, checked("invalid"))
    assert statuses(gone_on(tmp_path, found, left, paper, **not_here(found))) == ["failed", "skipped", "skipped"]
    assert paper.ran == []


def test_a_finding_in_a_run_that_failed_before_the_kill_is_one(tmp_path: Path) -> None:
    """What was found stays found, although something of ours failed."""
    found, paper = suite(tmp_path, THREE), Paper()
    left, run = killed(tmp_path, found)
    paper.recorded_before(run, checked("invalid"), state="failed", error="a worker died")
    assert statuses(gone_on(tmp_path, found, left, paper)) == ["failed", "passed", "passed"]
    assert str(left_behind(Run(run)).failure) == "the run failed (a worker died): run it again"


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("facts", "outcome", "said"),
    [
        ({}, Unchecked("the history is gone"), "the history is gone"),
        ({"state": "running"}, checked("invalid"), "was not recorded to its end"),
        ({"interrupted": True}, checked("invalid"), "was not recorded to its end"),
        (None, checked("invalid"), "there is no file"),
    ],
)
def test_what_was_recorded_and_cannot_be_checked_is_run_again(
    tmp_path: Path, facts: dict[str, Any] | None, outcome: Any, said: str, *, here: bool
) -> None:
    """However few attempts are allowed, and it is said; where the case cannot be had any more it is skipped."""
    found, paper = suite(tmp_path, THREE), Paper()
    left, run = killed(tmp_path, found)
    if facts is not None:
        paper.recorded_before(run, outcome, **facts)
    ended = gone_on(tmp_path, found, left, paper, attempts=1, **({} if here else not_here(found)))
    assert statuses(ended) == ["passed" if here else "skipped"] * 3
    assert sorted(paper.ran) == (["a", "b", "c"] if here else [])
    (told,) = paper.troubles
    assert "a, try 1: what was recorded before the suite was killed is of no use" in told
    assert said in told
    assert [said in one.retried[1] for one in ended.outcome("a").tries] == [True] * here
    assert not any(each.unchecked for each in ended.outcomes)


@pytest.mark.parametrize(
    "damage", [b"", b"[]", b'{"suite": "x"}', DAMAGED % b'["x"]', DAMAGED % b'[{"name": "a", "tries": ["x"]}]']
)
def test_a_damaged_state_is_an_error(tmp_path: Path, damage: bytes) -> None:
    """With what to do."""
    (tmp_path / states.STATE_FILE).write_bytes(damage)
    with pytest.raises(UsageError, match="leave --resume out"):
        states.read(tmp_path)


def test_there_has_to_be_something_to_go_on_with(tmp_path: Path) -> None:
    """The newest one."""
    with pytest.raises(UsageError, match="nothing of the suite 'mine'"):
        states.newest(tmp_path, "mine")
    first, second = (states.directory(tmp_path, "mine") for _ in range(2))
    states.write(second, play(suite(tmp_path, STREAM), Paper()))
    assert states.newest(tmp_path, "mine") == second != first
