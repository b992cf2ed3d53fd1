"""Planning, deciding and concluding, with made-up results of every experiment; no cluster."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.experiments.investigate.conclusion import conclude, exit_code
from harness.experiments.investigate.experiments import (
    BASELINE,
    EXPERIMENTS,
    PlannedExperiment,
    baseline_of,
    plan,
    repetition,
)
from harness.experiments.investigate.output import as_json, investigation_page, shown
from harness.experiments.investigate.search import (
    LOSS,
    REPETITIONS_AT_MOST,
    Investigation,
    RunSample,
    TookTooLong,
    effect,
    investigate,
    next_of,
    ran_of,
    symptoms,
)
from harness.foundation.console import SafeConsole
from harness.foundation.errors import ClusterError, Exit, Interrupted
from harness.report.comparison.inputs import AnomalySample, Sample
from harness.report.comparison.statistics import ArrivalCount
from harness.runs import scenario as scenarios
from harness.runs.scenario import Scenario

CAUSE = {
    "name": "metadata-incomplete",
    "sentence": "clients cannot find leaders: node 1 lists 1 of 3 brokers in Metadata",
    "confidence": "certain",
    "because": ["metadata-incomplete ×6"],
    "remedies": ["list every broker in Metadata"],
}


def scenario(*settings: str) -> Scenario:
    """The notes' scenario, with some settings."""
    return scenarios.load(None, {"workload": "large-batch", "seed": 7}, settings)


def planned(name: str, *settings: str) -> PlannedExperiment:
    """An experiment, as it is made with these settings."""
    return next(each for each in plan(scenario(*settings)) if each.name == name)


def ran(arrived: int = 5000, *illegal: str, **more: Any) -> RunSample:
    """A run in which so many of 5,000 arrived."""
    names = ("shared-offset", "stall", *illegal)
    seen = {name: AnomalySample(looked_at=True, found=int(name in illegal), illegal=name in illegal) for name in names}
    counted = ArrivalCount(arrived, 5000)
    return RunSample(Sample("s/t", counted, {}, seen), counted, took_s=10.0, **more)


def known(**runs: list[RunSample]) -> Investigation:
    """An investigation in which every experiment has run twice: like the baseline, unless something else is given."""
    given = {name.replace("_", " "): each for name, each in runs.items()}
    steps = plan(scenario())
    able = [each.name for each in steps if each.scenario is not None]
    return Investigation(scenario(), steps, {name: given.get(name, given[BASELINE]) for name in able})


# what is planned


def test_a_baseline_is_impatient_and_says_whether_it_is_idempotent() -> None:
    """So that a run which stalls is over soon, and that no library decides anything."""
    base = baseline_of(scenario("consumer_timeout_ms=60000", "delivery_timeout_ms=2000"))
    settings = base.settings
    assert (settings.consumer_timeout_ms, settings.delivery_timeout_ms) == (5000, 2000)
    assert settings.request_timeout_ms == 1000
    assert settings.idempotence is False
    assert base.time <= 15


def test_each_experiment_changes_what_it_is_about_and_nothing_else() -> None:
    """Against the baseline, with the notes' settings."""
    changes = {each.name: each.changed for each in plan(scenario())}
    assert changes[BASELINE] == {}
    assert changes["bootstrap"] == {"bootstrap": "first"}
    assert changes["single partition"] == {"partitions": 1}
    assert changes["in flight"] == {"max_in_flight": 1}
    assert changes["acks"] == {"acks": "all"}
    assert changes["client"] == {"client": "confluent-kafka"}
    assert changes["patience"]["consumer_timeout_ms"] == 15_000
    assert changes["patience"]["max_poll_records"] == 5000


def test_every_phase_of_the_notes_is_an_experiment() -> None:
    """Time-outs and poll size, partitions, bootstrap, acks, in flight, idempotence, fresh topics, client."""
    assert {each.name for each in EXPERIMENTS} == {
        "patience", "single partition", "bootstrap", "acks", "in flight", "idempotence", "topic age", "client",
    }  # fmt: skip


def test_what_cannot_be_changed_alone_is_compared_with_what_it_differs_from_in_one_thing() -> None:
    """Idempotence needs acks=all: with acks=1 it is compared with the experiment about acks."""
    assert planned("idempotence").against == "acks"
    assert planned("idempotence").changed == {"acks": "all", "idempotence": True}
    assert planned("acks").changed == {"acks": "all"}
    assert planned("idempotence", "acks=all").against == BASELINE
    assert planned("idempotence", "acks=all").changed == {"idempotence": False}
    assert planned("acks", "acks=all").against == "idempotence"
    assert planned("acks", "acks=all").changed == {"acks": "1", "idempotence": False}


def test_experiments_turn_round_what_is_already_so() -> None:
    """One in flight becomes five, the first broker all; one partition stays one, and the experiment is not made."""
    assert planned("in flight", "max_in_flight=1").changed == {"max_in_flight": 5}
    assert planned("bootstrap", "bootstrap=first").changed == {"bootstrap": "all"}
    single = planned("single partition", "partitions=1")
    assert (single.scenario, single.impossible) == (None, "the scenario has it so already")


def test_what_a_workload_has_no_setting_for_is_said() -> None:
    """Not tried is not the same as excluded."""
    strange = replace(EXPERIMENTS[0], name="strange", change=lambda _: {"no_such_setting": 1})
    (_, made) = plan(scenario(), [strange])
    assert made.scenario is None
    assert made.impossible == "'large-batch' has no setting no_such_setting"


def test_repetitions_have_chances_of_their_own() -> None:
    """The same for all experiments, so that they differ in nothing but what they change."""
    base, other = baseline_of(scenario()), planned("acks").scenario
    assert other is not None
    assert repetition(base, 0).seed != repetition(base, 1).seed
    assert repetition(base, 1).seed == repetition(other, 1).seed


def test_the_runs_of_an_experiment_are_a_group_of_the_store() -> None:
    """So that `compare` can be asked about them."""
    made = planned("single partition").scenario
    assert made is not None
    assert made.title == "large-batch+single-partition"


# effects


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([5000, 5000], "gone"),
        ([4970, 4990], "gone"),
        ([1660, 1700], "same"),
        ([3500, 3510], "less"),
        ([100, 110], "more"),
        ([5000, 10], "undecided"),
        ([5000], "undecided"),
    ],
)
def test_what_becomes_of_a_loss(after: list[int], expected: str) -> None:
    """A baseline of a third that arrives, twice."""
    before = [ran(1666), ran(1650)]
    assert effect(LOSS, before, [ran(each) for each in after]) == expected


def test_a_loss_that_comes_and_goes_is_undecided() -> None:
    """A baseline that loses everything or nothing says nothing about a change."""
    assert effect(LOSS, [ran(5000), ran(10)], [ran(5000), ran(5000)]) == "undecided"


@pytest.mark.parametrize(
    ("after", "expected"), [((False, False), "gone"), ((True, True), "same"), ((True, False), "undecided")]
)
def test_what_becomes_of_an_anomaly(after: tuple[bool, bool], expected: str) -> None:
    """By whether runs have it, where the count of messages says nothing."""
    before = [ran(5000, "shared-offset")] * 2
    runs = [ran(5000, "shared-offset") if has else ran() for has in after]
    assert effect("shared-offset", before, runs) == expected


def test_what_was_not_looked_for_is_not_gone() -> None:
    """Runs that cannot say anything about it do not count."""
    blind = RunSample(
        Sample("x", ArrivalCount(1, 1), {}, {"stall": AnomalySample(looked_at=False, found=0, illegal=False)})
    )
    assert effect("stall", [ran(5000, "stall")] * 2, [blind, blind]) == "undecided"


def test_symptoms_are_loss_first_and_then_what_most_runs_have() -> None:
    """What is allowed is none."""
    assert symptoms([ran(4000, "stall"), ran(5000, "stall", "duplicate")]) == [LOSS, "stall", "duplicate"]
    assert symptoms([ran(), ran()]) == []


def test_what_a_stream_has_not_read_when_it_is_stopped_is_no_loss() -> None:
    """There it is the sends that were given up; of a batch every message that did not arrive counts."""
    figures = {"sent": 1000, "acknowledged": 990, "distinct": 300}
    assert ran_of("x", {"figures": figures}, {}).loss == 0.0
    assert ran_of("x", {"figures": {**figures, "acknowledged": 300}}, {}).loss == pytest.approx(0.7)
    assert ran_of("x", {"figures": figures}, {"ends_by_itself": True}).loss == pytest.approx(0.7)
    assert ran_of("x", {"figures": {"sent": 10, "acknowledged": 5, "aborted": 5}}, {}).loss == 0.0


# what comes next


def drive(investigation: Investigation, answer: Callable[[str], RunSample]) -> list[str]:
    """The order of runs, given what each says; the clock stands still."""
    order: list[str] = []

    def run(given: Scenario) -> RunSample:
        name = next(each.name for each in investigation.planned if each.scenario and each.scenario.title == given.title)
        order.append(name)
        return answer(name)

    investigate(investigation, run, 1000.0, lambda _: None, clock=lambda: 0.0)
    return order


def fresh() -> Investigation:
    """Nothing was run yet."""
    return Investigation(scenario(), plan(scenario()))


def test_nothing_wrong_with_the_baseline_is_the_end() -> None:
    """After two runs."""
    investigation = fresh()
    assert drive(investigation, lambda _: ran()) == [BASELINE, BASELINE]
    assert "nothing is wrong" in conclude(investigation).sentence
    assert exit_code(investigation) == Exit.VALID


def test_everything_runs_twice_and_what_is_decided_no_more() -> None:
    """First each once: whenever it is stopped, something is known of each."""
    investigation = fresh()
    order = drive(investigation, lambda name: ran(5000 if name == "bootstrap" else 1666))
    able = [each.name for each in investigation.planned if each.scenario]
    assert order == [BASELINE, BASELINE, *able[1:], *able[1:]]


def test_what_is_undecided_is_repeated_to_a_limit() -> None:
    """With the baseline it is compared with."""
    investigation, calls = fresh(), iter(range(1000))

    def answer(name: str) -> RunSample:
        return ran(5000 * (next(calls) % 2) if name == "client" else 1666)

    order = drive(investigation, answer)
    assert order.count("client") == REPETITIONS_AT_MOST
    assert order.count("acks") == 2


def test_the_time_is_kept() -> None:
    """No run begins that would not be over in time; what is known is concluded from."""
    investigation, clock = fresh(), iter(range(0, 10_000, 10))
    investigate(investigation, lambda _: ran(1666), 60.0, lambda _: None, clock=lambda: next(clock))
    assert investigation.runs == 4
    assert "the time is up (60 s)" in conclude(investigation).notes[0]


@pytest.mark.parametrize("how", ["raises", "says so"])
def test_ctrl_c_gives_what_is_known_so_far(how: str) -> None:
    """The run that was stopped is no evidence."""
    investigation, calls = fresh(), iter(range(100))

    def run(_: Scenario) -> RunSample:
        if next(calls) < 4:
            return ran(1666, causes=(CAUSE,))
        if how == "raises":
            raise Interrupted("stopped by the user", "nothing is left")
        return ran(10, interrupted=True)

    investigate(investigation, run, 1000.0, lambda _: None, clock=lambda: 0.0)
    end = conclude(investigation)
    assert investigation.runs == 4
    assert end.cause is not None
    assert "stopped by the user: this is what is known so far" in end.notes
    assert exit_code(investigation) == Exit.INTERRUPTED


def test_an_experiment_that_fails_is_left_and_named() -> None:
    """The others go on."""
    investigation = fresh()

    def answer(name: str) -> RunSample:
        if name == "acks":
            raise ClusterError("no broker answers", "look at the logs")
        return ran(1666)

    assert drive(investigation, answer).count("acks") == 2
    end = conclude(investigation)
    assert any("acks: 2 runs failed" in note for note in end.notes)
    assert any(each.startswith("acks: not tried: no broker answers") for each in end.open)


def test_a_baseline_that_never_runs_says_nothing() -> None:
    """Neither fine nor not."""
    investigation = fresh()

    def answer(_: str) -> RunSample:
        raise ClusterError("no broker answers", "look at the logs")

    assert drive(investigation, answer) == [BASELINE, BASELINE]
    assert "nothing can be said" in conclude(investigation).sentence
    assert exit_code(investigation) == Exit.UNKNOWN


# conclusions


def test_a_loss_that_follows_one_thing_and_nothing_else() -> None:
    """The sentence that the notes looked for."""
    end = conclude(known(baseline=[ran(1666), ran(1650)], bootstrap=[ran(), ran()]))
    assert end.sentence == "loss follows the bootstrap list and nothing else"
    assert end.cause is not None
    assert end.cause.sentence.startswith("clients reach only the brokers in their bootstrap list")
    assert end.cause.confidence == "likely"
    assert any(each.startswith("time-outs and poll size") for each in end.excluded)
    assert any("several partitions" in each for each in end.excluded)


@pytest.mark.parametrize("name", [each.name for each in EXPERIMENTS])
def test_each_experiment_can_be_the_one(name: str) -> None:
    """Whatever the loss follows, it is named; an experiment that cannot be made is not."""
    step = planned(name)
    investigation = known(**{BASELINE: [ran(1666), ran(1650)], name.replace(" ", "_"): [ran(), ran()]})
    end = conclude(investigation)
    if step.scenario is None:
        assert end.sentence == "loss follows nothing that was changed"
        assert any(each.startswith(f"{step.experiment.suspect}: not tried") for each in end.open)
    else:
        # what is compared with the one that helped shows the loss again, and so follows it in the other direction
        assert end.sentence.startswith("loss follows ")
        assert step.experiment.suspect in end.sentence


def test_a_cause_that_the_runs_name_is_the_cause_and_experiments_exclude_the_rest() -> None:
    """Loss that follows nothing: the broker does it whatever clients do."""
    excluded = ({"name": "watermark lag", "sentence": "none", "because": "measured, none"},)
    base = [ran(1666, causes=(CAUSE,), excluded=excluded), ran(1650, causes=(CAUSE,), excluded=excluded)]
    end = conclude(known(baseline=base))
    assert end.sentence == "loss follows nothing that was changed"
    assert end.cause is not None
    assert (end.cause.sentence, end.cause.confidence) == (CAUSE["sentence"], "certain")
    assert end.cause.remedies == ("list every broker in Metadata",)
    assert any("named in 2 of 2 baseline runs" in each for each in end.cause.because)
    assert "watermark lag: measured, none" in end.excluded


def test_a_cause_that_not_every_baseline_run_names_is_only_possible() -> None:
    """However certain the one run is."""
    end = conclude(known(baseline=[ran(1666, causes=(CAUSE,)), ran(1650)]))
    assert end.cause is not None
    assert end.cause.confidence == "possible"


def test_an_anomaly_without_any_loss_is_followed_as_well() -> None:
    """Offsets given twice, gone with one request in flight, while every message arrives."""
    base = [ran(5000, "shared-offset")] * 2
    end = conclude(known(baseline=base, in_flight=[ran(), ran()]))
    assert end.symptom == "shared-offset"
    assert end.sentence == "shared-offset follows several requests in flight and nothing else"


def test_nothing_else_is_not_said_while_something_is_open() -> None:
    """An undecided experiment may yet be another."""
    end = conclude(known(baseline=[ran(1666)] * 2, bootstrap=[ran()] * 2, client=[ran(), ran(10)]))
    assert end.sentence == "loss follows the bootstrap list; undecided: the client library"
    assert any(each.startswith("the client library: undecided after 2 runs") for each in end.open)
    assert not any("client library" in each for each in end.excluded)


def test_what_was_compared_with_another_experiment_says_so() -> None:
    """Idempotence, where the scenario has acks=1."""
    steps = {step.experiment: step for step in conclude(known(baseline=[ran(1666)] * 2)).steps}
    assert "(compared with 'acks')" in steps["idempotence"].answer


def test_an_experiment_without_a_symptom_to_compare_with_is_not_repeated() -> None:
    """acks=all cures it: whether idempotence does on top of that, nobody can say."""
    investigation = known(baseline=[ran(1666)] * 2, acks=[ran()] * 2, idempotence=[ran()] * 2)
    assert next_of(investigation) is None


# from files, and for people


def test_a_run_is_what_its_results_say() -> None:
    """With its diagnosis, and whether it was stopped."""
    results = {
        "figures": {"sent": 10, "distinct": 5},
        "diagnosis": {"causes": [CAUSE], "excluded": [{"name": "time-outs"}]},
    }
    found = ran_of("s/t", results, {"ends_by_itself": True, "interrupted": True}, 3.0)
    assert (found.loss, found.interrupted, found.took_s) == (0.5, True, 3.0)
    assert (found.causes[0]["name"], found.excluded[0]["name"]) == ("metadata-incomplete", "time-outs")


def test_a_report_says_it_all_in_every_form() -> None:
    """Text, JSON and a page in which nothing runs."""
    evil = {**CAUSE, "sentence": "<script>alert(1)</script>\x1b[2J"}
    investigation = known(baseline=[ran(1666, causes=(evil,))] * 2, bootstrap=[ran()] * 2)
    end = conclude(investigation)
    console = SafeConsole(file=io.StringIO(), width=160)
    shown(console, investigation, end)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "loss follows the bootstrap list and nothing else" in text
    assert "\x1b" not in text
    assert "excluded" in text
    page = investigation_page(investigation, end)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    data = as_json(investigation, end)
    assert data["sentence"] == end.sentence
    assert data["symptoms"] == [LOSS]
    assert len(data["runs"][BASELINE]) == 2


PROVEN: dict[str, Any] = {
    "causes": ({"name": "incomplete-metadata", "sentence": "nodes are left out", "confidence": "certain"},)
}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (ran(1700, **PROVEN), "same"),
        (ran(1700), "undecided"),
        (ran(1700, causes=({"name": "incomplete-metadata", "confidence": "likely"},)), "undecided"),
        (ran(4000, **PROVEN), "undecided"),
        (ran(5000, **PROVEN), "undecided"),
    ],
)
def test_one_run_decides_only_that_a_proven_cause_still_does_the_same(after: RunSample, expected: str) -> None:
    """Nothing is gone, less or more after one run, nor the same because somebody thinks so."""
    baseline = [ran(1667, **PROVEN), ran(1666, **PROVEN)]
    assert effect("loss", baseline, [after]) == expected
    assert effect("loss", baseline, []) == "undecided"


def test_what_one_run_has_decided_is_not_run_again() -> None:
    """So that time is left for what is open."""
    investigation = Investigation(scenario(), plan(scenario()))
    investigation.ran[BASELINE] = [ran(1667, **PROVEN), ran(1666, **PROVEN)]
    for each in investigation.planned[1:]:
        investigation.ran[each.name] = [ran(1700, **PROVEN)]
    assert next_of(investigation) is None
    investigation.ran["acks"] = [ran(5000)]
    wanted = next_of(investigation)
    assert wanted is not None
    assert wanted.name in {"acks", "idempotence"}


def test_what_takes_too_long_is_tried_once() -> None:
    """It says so, and the others get their time."""
    asked: list[str] = []

    def run(each: Scenario) -> RunSample:
        asked.append(each.title)
        if each.title.endswith("idempotence"):
            raise TookTooLong("the load was not over after 60 s", ran(1))
        return ran(1667, **PROVEN)

    done = investigate(Investigation(scenario(), plan(scenario())), run, 1e9, lambda _: None)
    assert asked.count("large-batch+idempotence") == 1
    (step,) = [each for each in conclude(done).steps if each.experiment == "idempotence"]
    assert step.answer == "not tried: the load was not over after 60 s"
    assert "idempotence: 1 run failed: the load was not over after 60 s" in conclude(done).notes


def test_a_baseline_that_hangs_is_an_answer() -> None:
    """What it showed until it was ended is what the experiments are compared with, those that hang as well too."""

    def run(each: Scenario) -> RunSample:
        if each.title.endswith(("baseline", "acks", "large-batch")):
            raise TookTooLong("the load was not over after 60 s", ran(1667, "stall", **PROVEN))
        return ran(5000)

    done = investigate(Investigation(scenario(), plan(scenario())), run, 1e9, lambda _: None)
    concluded = conclude(done)
    assert len(done.of(BASELINE)) >= 2
    assert concluded.symptom == "loss"
    assert concluded.cause is not None
    assert exit_code(done) is Exit.INVALID
    assert any(note.startswith("baseline: the load was not over after 60 s") for note in concluded.notes)
    assert len(done.of("acks")) == 1


@pytest.mark.parametrize("error", [ClusterError("the cluster is gone", "start it"), OSError("no space"), KeyError("x")])
def test_what_the_only_baseline_showed_is_reported_whatever_comes_after_it(error: Exception) -> None:
    """One run is enough to say what is wrong, if not what it follows."""
    runs: list[Scenario] = []

    def run(each: Scenario) -> RunSample:
        runs.append(each)
        if len(runs) > 1:
            raise error
        return ran(1667, "stall", causes=(CAUSE,))

    done = investigate(Investigation(scenario(), plan(scenario())), run, 1e9, lambda _: None)
    concluded = conclude(done)
    assert concluded.sentence == "loss, stall: seen in the only run of the baseline, and not known what it follows"
    assert concluded.cause is not None
    assert concluded.cause.sentence == CAUSE["sentence"]
    assert exit_code(done) is Exit.INVALID
    assert len(concluded.notes) == 1
