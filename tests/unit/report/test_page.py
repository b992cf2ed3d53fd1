"""The report as a page: what it says, what it does not let anybody say, and how large it gets."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from checkers.core.families import FAMILIES
from harness.report.meanings import MEANINGS
from harness.report.operations import RunClock
from harness.report.page import render
from harness.report.story import StoryWriter
from tests.support.hostile_run import HOSTILE, ILLEGAL, facts, results, series

MOST_BYTES = 5_000_000
PATH = "store/stream/2026-11-15T12-30-05"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text += data


@pytest.fixture(scope="module")
def page() -> str:
    """Of a run in which everything is hostile."""
    return render(facts(), results(), series(), PATH)


def test_it_says_what_broke_why_and_how_to_see_it_again(page: str) -> None:
    """The verdict, the cause, the first counterexample in words, and the command."""
    text = Elements(page).text
    assert "The cluster broke its promises: 1 kind of violation in 1,234 events." in text
    assert "Offsets are assigned twice" in text
    assert "reserve the base offset" in text
    assert "time-outs (measured, none)" in re.sub(r"\s+", " ", text)
    assert "acknowledged at offset 27" in text
    assert f"tidegauge run --replay {PATH}" in text


def test_a_finding_says_who_led_what_was_broken_and_what_is_on_disk(page: str) -> None:
    """At its time."""
    text = Elements(page).text
    assert "node 1, epoch 0" in text
    assert "(from 2.0 s to 5.0 s)" in text
    assert "node 1: producer 6 #49 at offset 27" in text
    assert "node 2: not read" in text


def test_no_text_becomes_markup(page: str) -> None:
    """Whatever brokers, records, logs and clients say: one script of ours, no image, no handler, no style of others."""
    found = Elements(page).found
    assert [tag for tag, _ in found].count("script") == 1
    assert not {tag for tag, _ in found} & {"img", "iframe", "object", "embed", "link", "base", "form"}
    assert not [name for _, given in found for name in given if name.startswith("on") or name == "style"]
    assert Elements(page).text.count(HOSTILE) > 10
    assert not re.search("[\x00-\x08\x1b\u202e]", page)


def test_nothing_is_asked_of_anybody(page: str) -> None:
    """Links stay in the page, and nothing is loaded."""
    for tag, given in Elements(page).found:
        assert "src" not in given, tag
        assert (given.get("href") or "#").startswith("#"), tag
        assert "xlink:href" not in given, tag


def test_the_policy_names_the_style_and_the_script_that_are_there(page: str) -> None:
    """And forbids everything else."""
    policy = next(given["content"] for _, given in Elements(page).found if given.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_operations_of_a_timeline_lead_to_the_evidence(page: str) -> None:
    """Each link has a row that it leads to."""
    found = Elements(page).found
    there = {given["id"] for _, given in found if "id" in given}
    links = [given.get(name) for _, given in found for name in ("href", "data-link")]
    wanted = {link[1:] for link in links if link and link.startswith("#")}
    assert wanted <= there
    assert [name for name in wanted if name and name.startswith("realtime-order-0-")]


def test_without_series_it_says_that_nothing_is_drawn() -> None:
    """And is a report all the same."""
    text = Elements(render(facts(), results(), None, PATH)).text
    assert text.count("nothing is drawn, and that says nothing about the run") == 4
    assert "broke its promises" in text


def test_without_a_diagnosis_it_says_so() -> None:
    """No cause is made up."""
    text = Elements(render(facts(), results(diagnosed=False), series(), PATH)).text
    assert "This run has no diagnosis." in text


def test_every_cause_is_on_the_first_screen() -> None:
    """In a line each, above what is folded, with what may be there all the same."""
    told = results()
    (one,) = told["diagnosis"]["causes"][:1]
    told["diagnosis"]["causes"] = [{**one, "sentence": f"cause number {number}"} for number in range(1, 8)]
    unread = {"name": "lost messages", "outcome": "not excluded", "sentence": "measured, but 5 of 9 could not be read"}
    told["diagnosis"]["measured"].append(unread)
    page = render(facts(), told, series(), PATH)
    assert "7 causes, gravest first" in page
    folded = page.index("<details open><summary>Cause 1: evidence and fix")
    assert all(page.index(f"Cause number {number} ") < folded for number in range(1, 8))
    assert "lost messages (measured, but 5 of 9 could not be read)" in re.sub(r"\s+", " ", Elements(page).text)


def test_findings_are_grouped_by_cause_and_what_is_allowed_is_folded() -> None:
    """Each anomaly once, under the gravest cause that explains it."""
    told = results()
    kept = told["anomalies"]["realtime-order"]["findings"]
    marks = {status: {"status": status, "code": "", "why": "so it is"} for status in ("illegal", "unproven", "allowed")}
    for name, status in {"duplicate": "illegal", "lost-tail": "unproven", "stall": "allowed"}.items():
        told["anomalies"][name]["findings"] = kept
        told["seen"].append({"anomaly": name, "found": 3, "mark": marks[status], "marks": [marks[status]]})
    (one,) = told["diagnosis"]["causes"]
    told["diagnosis"]["causes"] = [one, {**one, "sentence": "another", "explains": ["realtime-order", "duplicate"]}]
    writer = StoryWriter(told, series(), RunClock(0))
    groups = [([each.name for each in group.anomalies], group.folded) for group in writer.groups(writer.seen())]
    assert groups == [(["realtime-order"], False), (["duplicate"], False), (["lost-tail"], False), (["stall"], True)]
    page = render(facts(), told, series(), PATH)
    assert page.index('id="anomaly-lost-tail"') < page.index('id="allowed"') < page.index('id="anomaly-stall"')


def test_every_number_of_the_first_screen_leads_to_its_evidence(page: str) -> None:
    """Tiles to sections, anomalies to their findings."""
    links = [given.get("href") for tag, given in Elements(page).found if tag == "a"]
    assert {"#partitions", "#linearizability", "#faults", "#coverage", "#anomaly-realtime-order"} <= set(links)


def test_what_is_unknown_says_what_is_missing() -> None:
    """Each reason, escaped."""
    text = Elements(render(facts(), results("unknown"), series(), PATH)).text
    assert "No verdict" in text
    assert f"the run failed: {HOSTILE}" in text


def test_a_run_of_which_little_is_known_has_a_report() -> None:
    """One that was killed before run.json said anything; nothing repeats it."""
    text = Elements(render({}, results("unknown"), None, PATH)).text
    assert "No verdict" in text
    assert "Repeat it" not in text


def test_a_valid_run_says_how_much_was_looked_at() -> None:
    """And has no findings."""
    text = Elements(render(facts(), results("valid"), series(), PATH)).text
    assert "The cluster kept its promises: no violation in 1,234 events, 38 anomalies checked." in text
    assert "What to do" not in text


def test_the_largest_report_is_small_enough() -> None:
    """As many partitions, nodes and points as are ever drawn, and as many findings with as many operations."""
    told = results()
    kept = told["anomalies"]["realtime-order"]["findings"][0]
    drawn = series(partitions=24, nodes=5, points=300)
    operations = drawn["around"]["realtime-order/0"] * 15
    told["seen"] = []
    for name, anomaly in told["anomalies"].items():
        anomaly["findings"] = [{**kept, "anomaly": name, "detail": "x" * 300}] * 20
        anomaly["found"] = 10**9
        told["seen"].append({"anomaly": name, "found": 10**9, "mark": ILLEGAL, "marks": [ILLEGAL] * 20})
    names = list(told["anomalies"])[:13]
    drawn["around"] = {
        f"{name}/{number}": [{**row, "event": n, "detail": "x" * 300} for n, row in enumerate(operations)]
        for name in names
        for number in range(3)
    }
    assert len(render(facts(), told, drawn, PATH).encode()) < MOST_BYTES


def test_every_anomaly_has_a_meaning() -> None:
    """And nothing else has."""
    known = {name for family in FAMILIES for name in family.anomalies}
    assert set(MEANINGS) == known


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_first_counterexample_is_that_of_the_cause(number: int) -> None:
    """By its events and its time, whatever the words; without a cause, the earliest."""
    told = results()
    kept = told["anomalies"]["realtime-order"]["findings"][0]
    others = [{**kept, "time_ns": kept["time_ns"] - later, "events": [later], "detail": "x"} for later in range(3)]
    told["anomalies"]["realtime-order"]["findings"] = others
    told["seen"][0]["marks"] = [ILLEGAL] * 3
    pointer = {"events": [number], "time_ns": kept["time_ns"] - number, "detail": "in other words"}
    told["diagnosis"]["causes"][0]["first"] |= pointer
    teller = StoryWriter(told, None, RunClock(0))
    first = teller.first(teller.seen())
    assert first is not None
    assert first.key == f"realtime-order-{number}"
    told["diagnosis"]["causes"] = []
    first = teller.first(teller.seen())
    assert first is not None
    assert first.key == "realtime-order-2"
