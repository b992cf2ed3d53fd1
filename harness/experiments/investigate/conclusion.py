"""What an investigation comes to: what the symptom follows, what is excluded, the cause, and what stays open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.experiments.investigate.experiments import BASELINE, PlannedExperiment
from harness.experiments.investigate.search import FOLLOWING, REPETITIONS, Effect, Investigation, RunSample
from harness.foundation.errors import Exit
from harness.judging.diagnosis.cause import counted


@dataclass(frozen=True)
class DecisionStep:
    """One question of the decision tree, and its answer."""

    experiment: str
    question: str
    change: str
    runs: int
    arrived: str  # of messages, or acknowledged of sends, by its runs
    effect: Effect | None  # on the first symptom; None where the experiment was not made
    answer: str
    suspect: str


@dataclass(frozen=True)
class NamedCause:
    """What it is, who says so, and what to do."""

    sentence: str
    confidence: str
    because: tuple[str, ...]
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conclusion:
    """The end of an investigation."""

    symptom: str  # the first one; empty if nothing was wrong
    others: tuple[str, ...]  # what each further symptom follows, a sentence each
    sentence: str
    cause: NamedCause | None
    excluded: tuple[str, ...]
    open: tuple[str, ...]  # what is undecided or was not tried, and why
    steps: tuple[DecisionStep, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


def conclude(investigation: Investigation) -> Conclusion:
    """From what is known now, however much that is."""
    found = investigation.symptoms
    notes = tuple(_notes(investigation))
    if len(investigation.of(BASELINE)) < REPETITIONS:
        return _of_too_few(investigation, found, notes)
    if not found:
        runs = len(investigation.of(BASELINE))
        sentence = f"nothing is wrong with the baseline: {runs} runs, nothing lost and nothing illegal seen"
        return Conclusion("", (), sentence, None, (), (), (), notes)
    first, *more = found
    steps = tuple(_step(investigation, planned, first) for planned in investigation.planned[1:])
    return Conclusion(
        symptom=first,
        others=tuple(_follows(investigation, symptom) for symptom in more),
        sentence=_follows(investigation, first),
        cause=_cause(investigation, first),
        excluded=tuple(_excluded(investigation, steps)),
        open=tuple(_open(steps)),
        steps=steps,
        notes=notes,
    )


def exit_code(investigation: Investigation) -> Exit:
    """What the command returns."""
    if investigation.interrupted:
        return Exit.INTERRUPTED
    if investigation.symptoms:
        return Exit.INVALID
    return Exit.VALID if len(investigation.of(BASELINE)) >= REPETITIONS else Exit.UNKNOWN


def _of_too_few(investigation: Investigation, found: Sequence[str], notes: tuple[str, ...]) -> Conclusion:
    """What the only run of the baseline showed is known, whatever became of the others."""
    if not found:
        said = "nothing can be said: the baseline did not run often enough"
        return Conclusion("", (), said, None, (), (), (), notes)
    said = f"{', '.join(found)}: seen in the only run of the baseline, and not known what it follows"
    cause, excluded = _cause(investigation, found[0]), tuple(_excluded(investigation, ()))
    return Conclusion(found[0], (), said, cause, excluded, (), (), notes)


def _step(investigation: Investigation, planned: PlannedExperiment, symptom: str) -> DecisionStep:
    runs = investigation.of(planned.name)
    effect: Effect | None = None
    if planned.impossible:
        answer = f"not tried: {planned.impossible}"
    elif not runs:
        failures = investigation.failures.get(planned.name)
        answer = f"not tried: {failures[0] if failures else 'there was no time for it'}"
    else:
        effect = investigation.effect(planned, symptom)
        answer = {
            "gone": f"{symptom}: gone with {planned.change}",
            "less": f"{symptom}: less with {planned.change}",
            "more": f"{symptom}: more with {planned.change}",
            "same": f"{symptom}: the same with {planned.change}",
            "undecided": f"undecided after {counted(len(runs), 'run')}",
        }[effect]
        if planned.against != BASELINE:
            answer += f" (compared with '{planned.against}')"
    experiment = planned.experiment
    return DecisionStep(
        planned.name, experiment.question, planned.change, len(runs), rates(runs), effect, answer, experiment.suspect
    )


def _follows(investigation: Investigation, symptom: str) -> str:
    """What a symptom follows, and whether that is all."""
    tried = [each for each in investigation.planned[1:] if investigation.of(each.name)]
    effects = {each.experiment.suspect: investigation.effect(each, symptom) for each in tried}
    follows = [suspect for suspect, effect in effects.items() if effect in FOLLOWING]
    undecided = [suspect for suspect, effect in effects.items() if effect == "undecided"]
    left = f"; undecided: {', '.join(undecided)}" if undecided else ""
    if not effects:
        return f"{symptom}: no experiment was made"
    if follows:
        only = " and nothing else" if not undecided else ""
        return f"{symptom} follows {' and '.join(follows)}{only}{left}"
    if len(undecided) == len(effects):
        return f"{symptom}: nothing is decided yet"
    return f"{symptom} follows nothing that was changed{left}"


def _cause(investigation: Investigation, symptom: str) -> NamedCause | None:
    """What the diagnosis of the baseline's runs names, or what the experiments alone say."""
    baseline = investigation.of(BASELINE)
    named = Counter(str(run.causes[0]["name"]) for run in baseline if run.causes)
    follows = [
        each
        for each in investigation.planned[1:]
        if investigation.of(each.name) and investigation.effect(each, symptom) in FOLLOWING
    ]
    if named:
        name, times = named.most_common(1)[0]
        cause = next(run.causes[0] for run in baseline if run.causes and run.causes[0]["name"] == name)
        elsewhere = [run for each in investigation.planned[1:] for run in investigation.of(each.name)]
        again = sum(name in {str(cause["name"]) for cause in run.causes} for run in elsewhere)
        because = [
            *map(str, cause.get("because") or ()),
            f"named in {times} of {len(baseline)} baseline runs and in {again} of {len(elsewhere)} runs of experiments",
            *(f"{each.experiment.suspect}: {each.experiment.if_it_follows}" for each in follows),
        ]
        sure = str(cause["confidence"]) if times == len(baseline) else "possible"
        return NamedCause(str(cause["sentence"]), sure, tuple(because), tuple(map(str, cause.get("remedies") or ())))
    if len(follows) == 1:
        (only,) = follows
        answer = _step(investigation, only, symptom).answer
        return NamedCause(only.experiment.if_it_follows, "likely", (answer,))
    return None


def _excluded(investigation: Investigation, steps: Sequence[DecisionStep]) -> Iterator[str]:
    """By experiment, and by measurement in every baseline run."""
    for step in steps:
        if step.effect == "same":
            yield f"{step.suspect}: {step.answer}"
    baseline = investigation.of(BASELINE)
    for each in baseline[0].excluded:
        if all(each["name"] in {other["name"] for other in run.excluded} for run in baseline):
            yield f"{each['name']}: {each['because']}"


def _open(steps: Sequence[DecisionStep]) -> Iterator[str]:
    for step in steps:
        if step.effect is None or step.effect == "undecided":
            yield f"{step.suspect}: {step.answer}"


def _notes(investigation: Investigation) -> Iterator[str]:
    if investigation.stopped:
        yield investigation.stopped
    if investigation.cut_short:
        yield f"baseline: {investigation.cut_short}; what it showed until then is what experiments are compared with"
    for name, sentences in investigation.failures.items():
        yield f"{name}: {counted(len(sentences), 'run')} failed: {sentences[0]}"
    if investigation.of(BASELINE) and not any(run.causes or run.excluded for run in investigation.of(BASELINE)):
        yield "the diagnosis of the runs names no cause: this one comes from the experiments only"


def rates(runs: Sequence[RunSample]) -> str:
    """What loss is measured by, from the lowest to the highest rate."""
    found = sorted(run.counted.rate for run in runs if run.counted)
    if not found:
        return "-"
    low, high = f"{100 * found[0]:.1f}", f"{100 * found[-1]:.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %"
