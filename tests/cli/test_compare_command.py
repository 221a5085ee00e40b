"""`hone compare`: what it submits, how it goes on, and what it tells."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from typer.testing import CliRunner, Result

from app.cli import app
from app.cli.contract_client import ContractClient
from app.cli.display import score_text
from app.contract.status import Status
from hone import ServerUnreachable
from hone_extras.compare.comparison import dollars, with_sign
from hone_extras.compare.comparison_run import ComparedText, ComparisonPlan, ComparisonRunner
from tests.cli.comparing_api import Body, ComparingApi, comparing_api, problem

EXAMPLES = Path(__file__).parents[2] / "examples"
CRITERIA = {"criteria": [{"name": "clarity"}]}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&gt;\u202e\x1b[31m"


@pytest.fixture
def api() -> Iterator[ComparingApi]:
    with comparing_api() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six texts and two settings."""
    (tmp_path / "texts").mkdir()
    for number in range(6):
        (tmp_path / "texts" / f"mail-{number}.txt").write_text(f"Text {number}.")
    (tmp_path / "texts" / ".hidden.txt").write_text("not this")
    (tmp_path / "texts" / "picture.png").write_text("nor this")
    (tmp_path / "a.json").write_text(json.dumps({**CRITERIA, "threshold": 0.8}))
    (tmp_path / "b.json").write_text(json.dumps({**CRITERIA, "threshold": 0.9}))
    return tmp_path


Compare = Callable[..., Result]


@pytest.fixture
def compare(api: ComparingApi, folder: Path) -> Compare:
    def run(*more: str) -> Result:
        files = ("--texts", f"{folder}/texts", "--a", f"{folder}/a.json", "--b", f"{folder}/b.json")
        variables = {"HONE_SERVER": api.url}
        return CliRunner().invoke(app, ["compare", *files, *more], env=variables)

    return run


def test_every_text_meets_every_setting_and_each_draft_the_same_judge(
    api: ComparingApi, compare: Compare
) -> None:
    done = compare()
    assert done.exit_code == 0, done.output
    assert "Use b: the judge scores its texts higher" in done.stdout
    assert "6-0-0" in done.stdout
    assert (len(api.runs("a")), len(api.runs("b")), len(api.runs("judge"))) == (6, 6, 12)
    judged = [api.submitted[run] for run in api.runs("judge")]
    assert {body["strategy"]["kind"] for body in judged} == {"critique"}
    assert {json.dumps(body["criteria"]) for body in judged} == {json.dumps(CRITERIA["criteria"])}
    assert not any("threshold" in body for body in judged)
    firsts = [body["metadata"]["compare_setting"] for body in list(api.submitted.values())[:4]]
    assert firsts == ["a", "b", "b", "a"]


def test_a_second_run_submits_nothing_and_finds_the_same(
    api: ComparingApi, compare: Compare
) -> None:
    first = compare("--json")
    submitted = len(api.submitted)
    second = compare("--json")
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert len(api.submitted) == submitted


def test_a_run_that_was_cut_off_goes_on_with_what_is_missing(
    api: ComparingApi, compare: Compare
) -> None:
    compare()
    for refinement_id in (*api.runs("a")[4:], *api.runs("judge")[7:]):
        del api.submitted[refinement_id], api.snapshots[refinement_id]
    api.asked.clear()
    assert compare().exit_code == 0
    again = [request for request in api.asked if request.route == "POST /v1/refinements"]
    assert len(again) == 2 + 5
    assert len({request.key for request in again}) == 7


def test_more_texts_under_the_same_name_cost_only_what_they_add(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    compare("--name", "spring")
    (folder / "texts" / "mail-6.md").write_text("One more.")
    (folder / "texts" / "copy.txt").write_text("One more.")
    api.asked.clear()
    done = compare("--name", "spring")
    assert sum(request.route == "POST /v1/refinements" for request in api.asked) == 2 + 2
    assert "counted once: mail-6.md (as copy.txt)" in done.stderr
    assert "spring: 7 texts" in done.stdout


def test_a_failure_is_told_and_the_exit_code_says_that_a_text_is_missing(
    api: ComparingApi, compare: Compare
) -> None:
    def fails(body: Body) -> Status:
        is_it = body["metadata"]["compare_text"] == "mail-3.txt" and body.get("threshold") == 0.9
        return Status.FAILED if is_it else Status.SUCCEEDED

    api.status_of = fails
    done = compare()
    assert done.exit_code == 3
    assert "mail-3.txt with b: model_refused: the model refuses" in done.stdout
    assert "counts as 0" in done.stdout
    api.status_of = lambda _: Status.SUCCEEDED
    assert compare().exit_code == 3
    mended = compare("--retry")
    assert mended.exit_code == 0
    assert "model_refused" not in mended.stdout


def test_what_waits_for_a_reviewer_is_told_and_not_waited_for(
    api: ComparingApi, compare: Compare
) -> None:
    api.status_of = lambda body: (
        Status.PAUSED if body["metadata"]["compare_text"] == "mail-0.txt" else Status.SUCCEEDED
    )
    done = compare()
    assert done.exit_code == 3
    assert f"it waits for a reviewer: hone review {api.runs('a')[0]}" in done.stdout


def test_a_request_that_would_be_refused_is_said_before_anything_is_paid(
    api: ComparingApi, compare: Compare
) -> None:
    api.refuses = lambda body: (
        problem(422, "invalid_request", "no such model") if body.get("threshold") == 0.9 else None
    )
    done = compare()
    assert done.exit_code == 1
    assert "Nothing was submitted." in done.stderr
    assert "mail-0.txt with b" in done.stderr
    assert not api.submitted


def test_a_dry_run_says_the_cost_and_submits_nothing(api: ComparingApi, compare: Compare) -> None:
    done = compare("--dry-run", "--json", "--judgements", "2")
    costs = json.loads(done.stdout)
    assert costs["a"]["p95"]["cost_usd"] == pytest.approx(0.06)
    assert costs["judge"]["p95"]["cost_usd"] == pytest.approx(0.24)
    assert costs["total"]["p95"]["calls"] == 3 * (6 + 6 + 24)
    assert not api.submitted
    checked = [json.loads(request.body) for request in api.asked]
    drafts = [body["draft"] for body in checked]
    assert sum("compare_key" in body.get("metadata", {}) for body in checked) == 12
    assert max(map(len, drafts)) >= 3 * 500  # a draft of all tokens that may be written


def test_settings_with_different_rubrics_need_a_judge(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    other = {"criteria": [{"name": "tone"}], "models": {"critic": "openai:gpt-5"}}
    (folder / "b.json").write_text(json.dumps({**other, "threshold": 0.9}))
    refused = compare()
    assert refused.exit_code == 1
    assert "the settings have different `criteria`" in refused.stderr
    (folder / "judge.json").write_text(json.dumps({**CRITERIA, "models": {"critic": "x:judge"}}))
    done = compare("--judge", f"{folder}/judge.json")
    assert done.exit_code == 0, done.output
    judged = api.submitted[api.runs("judge")[0]]
    assert judged["models"] == {"critic": "x:judge"}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({**CRITERIA, "draft": "x"}, "`draft` of b belongs to a text"),
        ({**CRITERIA, "store": False}, "its drafts would be gone"),
        ({**CRITERIA, "threshold": 0.8}, "a and b are the same settings"),
    ],
)
def test_settings_that_cannot_be_compared_are_refused(
    compare: Compare, folder: Path, setting: Any, said: str
) -> None:
    (folder / "b.json").write_text(json.dumps(setting))
    done = compare()
    assert (done.exit_code, said in done.stderr) == (1, True), done.stderr


def test_criteria_that_differ_from_draft_to_draft_are_refused(
    compare: Compare, folder: Path
) -> None:
    for name, threshold in (("a", 0.8), ("b", 0.9)):
        body = {"criteria": "auto", "threshold": threshold}
        (folder / f"{name}.json").write_text(json.dumps(body))
    assert "lists others for each draft" in compare().stderr.replace("\n", " ")


def test_ratings_by_people_count_with_their_last_word(api: ComparingApi, compare: Compare) -> None:
    compare()
    for number, refinement_id in enumerate(api.runs("a")):
        api.rate(refinement_id, "Ann", 0.1)
        api.rate(refinement_id, "Ann", 0.9)
        api.rate(api.runs("b")[number], "Ann", 0.5 + number / 100)
    found = json.loads(compare("--json").stdout)
    (difference,) = found["differences"]
    assert difference["people"]["count"] == 6
    assert difference["people"]["mean"] < -0.3
    assert "from 10 on their word decides" in " ".join(found["recommendation"]["sentences"])


def test_dollars_that_are_unknown_stay_unknown(api: ComparingApi, compare: Compare) -> None:
    api.cost_usd = None
    found = json.loads(compare("--json").stdout)
    assert [setting["cost_usd"] for setting in found["settings"]] == [None, None]
    assert found["cost_usd"] == {"refining": None, "judging": None}
    assert "unknown" in compare().stdout


def test_drafts_judged_more_than_once_show_the_noise_of_the_judge(
    api: ComparingApi, compare: Compare
) -> None:
    found = json.loads(compare("--json", "--judgements", "3").stdout)
    assert found["judge"]["noise"] == 0
    assert len(api.runs("judge")) == 3 * 12


def test_requests_are_compared_and_a_setting_wins_over_a_field_of_a_text(
    api: ComparingApi, folder: Path, compare: Compare
) -> None:
    lines = [
        {"custom_id": f"no-{i}", "request": {"draft": f"Line {i}", "threshold": 0.1}}
        for i in range(6)
    ]
    path = folder / "texts.jsonl"
    path.write_text("\ufeff" + "\r\n".join(json.dumps(line) for line in lines))
    done = compare("--texts", str(path))
    assert done.exit_code == 0, done.output
    assert {api.submitted[run]["threshold"] for run in api.runs("a")} == {0.8}
    path.write_text('{"draft": "x"}\n{"drift": "y"}')
    assert "line 2 is no request" in compare("--texts", str(path)).stderr


def test_hostile_names_stay_on_their_lines_and_json_has_them_to_the_letter(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    names = "tone\nforged \u202e\x1b[2K\x9b", "mail\nforged \u2066\x1b[2K\x9b"
    api.criteria = (names[0], "clarity")
    (folder / "texts" / f"{names[1]}.txt").write_text("One more.")
    api.status_of = lambda body: (
        Status.FAILED if body["draft"].startswith("One more.") else Status.SUCCEEDED
    )
    printed, found = compare().stdout, json.loads(compare("--json").stdout)
    forged = [line for line in printed.splitlines() if "forged" in line]
    assert len(forged) == 2
    assert all("tone" in line or "mail" in line for line in forged)
    assert not {*printed} & {*"\u202e\u2066\x1b\x9b"}
    assert names[0] in found["differences"][0]["criteria"]
    assert f"{names[1]}.txt" in [text["name"] for text in found["texts"]]


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_shows_every_text_and_runs_no_script(
    api: ComparingApi, folder: Path, compare: Compare
) -> None:
    (folder / "texts" / "mail-0.txt").write_text(HOSTILE)
    webhook = {"url": "https://example.com", "secret": "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}
    body = {**CRITERIA, "threshold": 0.9, "webhook": webhook}
    (folder / "b.json").write_text(json.dumps(body))
    done = compare("--html", f"{folder}/page.html")
    assert done.exit_code == 0, done.output
    page = (folder / "page.html").read_text()
    tags = Tags(page)
    assert not {"script", "img", "link", "a", "iframe", "form"} & {tag for tag, _ in tags.found}
    attributes = {name for _, given in tags.found for name in given}
    assert not {
        attribute
        for attribute in attributes
        if attribute.startswith("on") or attribute in ("src", "href", "style")
    }
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "url(" not in page
    assert all(f"Text {number}. (as 0.9)" in page for number in range(1, 6))
    assert webhook["secret"] not in page
    assert "**********" in page


def test_a_server_that_is_busy_is_asked_again(api: ComparingApi, compare: Compare) -> None:
    answers = iter([problem(503, "overloaded")])

    def busy_once(body: Body) -> Any:
        return next(answers, None) if "metadata" in body else None

    api.refuses = busy_once
    assert compare().exit_code == 0
    assert len(api.submitted) == 24


def test_a_server_that_restarts_is_asked_again_and_one_that_never_answered_is_not(
    api: ComparingApi,
) -> None:
    texts = (ComparedText("one", {"draft": "One."}),)
    plan = ComparisonPlan("x", texts, {"a": {}, "b": {"threshold": 0.9}}, {})
    pauses: list[float] = []
    with ContractClient("http://127.0.0.1:9") as nobody, pytest.raises(ServerUnreachable):
        ComparisonRunner(nobody, plan, pause=pauses.append).estimates(p95=False)
    assert pauses == []
    with ContractClient(api.url) as client:
        runner = ComparisonRunner(client, plan, pause=pauses.append)
        runner.estimates(p95=False)
        api.goes_away = 2
        assert runner.known() == {}
    assert pauses == [1.0, 1.0]


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_sent(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    assert compare("--html", str(folder)).exit_code == 2
    assert api.submitted == {}


def test_a_text_whose_name_is_not_utf_8_is_compared(compare: Compare, folder: Path) -> None:
    (folder / "texts" / "bad\udcff.txt").write_text("Another text.")
    done = compare("--json")
    assert done.exit_code == 0, done.output
    assert "bad\\xff.txt" in [text["name"] for text in json.loads(done.stdout)["texts"]]


def test_numbers_that_json_does_not_have_are_refused_in_texts(
    compare: Compare, folder: Path
) -> None:
    (folder / "texts.jsonl").write_text('{"draft": "x", "threshold": NaN}')
    done = compare("--texts", f"{folder}/texts.jsonl")
    assert done.exit_code == 1
    assert "line 1 is not JSON" in done.stderr


def test_of_a_setting_that_always_fails_the_reason_is_told_and_the_other_one_recommended(
    api: ComparingApi, compare: Compare
) -> None:
    api.status_of = lambda fields: (
        Status.FAILED if fields.get("threshold") == 0.9 else Status.SUCCEEDED
    )
    done = compare("--name", "spring")
    assert done.exit_code == 1, done.output
    assert "Use a: it alone works, and b failed on every text" in done.stdout
    why = "b has no score on any of 6 texts: model_refused: the model refuses (6 texts)."
    assert f"{why} Correct the name of its model" in done.stdout
    assert "Where a text is missing and counts as 0, b and a differ by -0." in done.stdout
    assert "Run it again with --name spring" in done.stdout
    assert "and 3 more: model_refused: the model refuses" in done.stdout
    (difference,) = json.loads(compare("--name", "spring", "--json").stdout)["differences"]
    assert (difference["score"], difference["verdict"]) == (None, "none")
    assert difference["counting_missing"]["high"] < 0
    api.status_of = lambda _: Status.SUCCEEDED
    mended = compare("--name", "spring", "--retry")
    assert (mended.exit_code, "Run it again" in mended.stdout) == (0, False)


def test_if_every_setting_always_fails_the_reason_of_each_is_told(
    api: ComparingApi, compare: Compare
) -> None:
    api.status_of = lambda _: Status.FAILED
    done = compare()
    assert done.exit_code == 1
    assert "Nothing can be compared or recommended: no text of a and b has a score." in done.stdout
    for name in ("a", "b"):
        assert f"{name} has no score on any of 6 texts: model_refused" in done.stdout


def test_the_settings_that_work_are_compared_beside_one_that_always_fails(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    (folder / "c.json").write_text(json.dumps({**CRITERIA, "threshold": 0.7}))
    api.status_of = lambda fields: (
        Status.FAILED if fields.get("threshold") == 0.7 else Status.SUCCEEDED
    )
    done = compare("--setting", f"c={folder}/c.json")
    assert done.exit_code == 3, done.output
    assert "Use b: the judge scores its texts higher" in done.stdout
    assert "c has no score on any of 6 texts: model_refused" in done.stdout


@pytest.mark.parametrize(
    ("status", "why", "fix"),
    [
        (Status.FAILED, "not judged: model_refused: the model refuses", "Mend the judge"),
        (Status.PAUSED, "it waits for a reviewer", "Answer its reviews"),
    ],
)
def test_what_is_no_fault_of_a_setting_recommends_no_other_one(
    api: ComparingApi, compare: Compare, status: Status, why: str, fix: str
) -> None:
    def of(body: Body) -> Status:
        judges = body["metadata"]["compare_setting"] == "judge"
        is_b = "(as 0.9)" in body["draft"] or body.get("threshold") == 0.9
        return status if is_b and judges == (status is Status.FAILED) else Status.SUCCEEDED

    api.status_of = of
    done = compare()
    assert done.exit_code == 1
    assert f"b has no score on any of 6 texts: {why} (6 texts). {fix}" in done.stdout
    assert "Use a" not in done.stdout
    assert json.loads(compare("--json").stdout)["recommendation"]["choice"] is None


def test_a_judgement_that_settings_share_is_listed_once(
    api: ComparingApi, compare: Compare, folder: Path
) -> None:
    api.writes = lambda body: f"{body['draft']} (as one)"
    found = json.loads(compare("--json", "--html", f"{folder}/page.html").stdout)
    assert len(api.runs("judge")) == 6
    for text in found["texts"]:
        a, b = text["settings"]["a"], text["settings"]["b"]
        assert (len(a["judgements"]), a["judged_with"]) == (1, None)
        assert (b["judgements"], b["judged_with"]) == ([], "a")
        assert a["score"] == b["score"]
    page = (folder / "page.html").read_text()
    assert page.count("clarity 0.") == page.count("The same draft as with a: judged once") == 6


def test_a_failed_judgement_that_settings_share_is_named_once_and_has_its_cost(
    api: ComparingApi, compare: Compare
) -> None:
    api.writes = lambda body: f"{body['draft']} (as one)"
    api.status_of = lambda body: (
        Status.FAILED
        if body["metadata"]["compare_setting"] == "judge" and "Text 3" in body["draft"]
        else Status.SUCCEEDED
    )
    found = json.loads(compare("--json").stdout)
    (line,) = found["missing"]
    assert line.startswith("mail-3.txt with a and b, not judged: ref_")
    assert found["cost_usd"]["judging"] == pytest.approx(6 * 0.01)


def ratings_given(api: ComparingApi, compare: Compare, folder: Path) -> None:
    for number in range(6, 14):
        (folder / "texts" / f"mail-{number}.txt").write_text(f"Text {number}.")
    compare()
    for number, (a, b) in enumerate(zip(api.runs("a"), api.runs("b"), strict=True)):
        api.rate(a, "Ann", 0.4 + number / 100)
        api.rate(b, "Ann", 0.9 - number / 90)


def few_ratings(api: ComparingApi, compare: Compare, folder: Path) -> None:
    compare()
    api.rate(api.runs("a")[0], "Ann", 0.1)
    api.rate(api.runs("b")[0], "Ann", 0.3)


def one_failed(api: ComparingApi, compare: Compare, folder: Path) -> None:
    api.status_of = lambda body: (
        Status.FAILED
        if body["metadata"]["compare_text"] == "mail-3.txt" and body.get("threshold") == 0.9
        else Status.SUCCEEDED
    )


def one_setting_failed(api: ComparingApi, compare: Compare, folder: Path) -> None:
    api.status_of = lambda fields: (
        Status.FAILED if fields.get("threshold") == 0.9 else Status.SUCCEEDED
    )


def ties(api: ComparingApi, compare: Compare, folder: Path) -> None:
    """Differences that are almost 0, too, whose sign nobody is to see."""
    api.score = lambda body: 0.7 + (0.0001 if "Text 2. (as 0.8)" in body["draft"] else 0)


def one_text(api: ComparingApi, compare: Compare, folder: Path) -> None:
    for number in range(1, 6):
        (folder / "texts" / f"mail-{number}.txt").unlink()


def unknown_dollars(api: ComparingApi, compare: Compare, folder: Path) -> None:
    api.cost_usd = None


@pytest.mark.long
@pytest.mark.parametrize(
    "prepared",
    [
        ratings_given,
        few_ratings,
        one_failed,
        one_setting_failed,
        ties,
        one_text,
        unknown_dollars,
    ],
)
def test_tables_json_and_page_agree_in_every_number(
    api: ComparingApi, compare: Compare, folder: Path, prepared: Callable[..., None]
) -> None:
    api.criteria = ("clarity", "tone")
    prepared(api, compare, folder)
    printed = compare("--html", f"{folder}/page.html").stdout
    found = json.loads(compare("--json").stdout)
    page = RowCells((folder / "page.html").read_text())
    rows = [row for difference in found["differences"] for row in rows_of(difference)]
    for row in (*map(row_of_setting, found["settings"]), *rows):
        assert row in page.rows
        assert " ".join(row) in in_lines(printed)
    advice = found["recommendation"]["sentences"]
    assert [sentence for sentence in advice if sentence not in printed] == []
    told = [*advice, *found["remarks"], *found["missing"]]
    assert [line for line in told if line not in page.text] == []
    for text in found["texts"]:
        scores = {name: run["score"] for name, run in text["settings"].items()}
        shown = (
            f"{name} {'none' if score is None else f'{score:.3f}'}"
            for name, score in scores.items()
        )
        assert f"{text['name']}{''.join(shown)}" in page.text
    pairs = [[run["score"] for run in text["settings"].values()] for text in found["texts"]]
    assert page.classes.count("dot") == sum(None not in pair for pair in pairs)
    assert not re.search(r"-0\.000\b", printed + page.text)


def row_of_setting(setting: Any) -> tuple[str, ...]:
    return (
        setting["name"],
        *mean_and_reach(setting["score"], "{:.3f}".format),
        f"{setting['passed']}/{setting['texts']}",
        score_text(setting["own_score"]),
        "unknown" if setting["cost_usd"] is None else dollars(setting["cost_usd"]["mean"]),
        "unknown" if setting["seconds"] is None else f"{setting['seconds']['mean']:.1f}",
    )


def rows_of(difference: Any) -> Iterator[tuple[str, ...]]:
    """The rows of a difference in the tables of differences, criteria and people."""
    pair = f"{difference['setting']} - {difference['against']}"
    cost = difference["cost_usd"] and difference["cost_usd"]["mean"]
    yield (
        pair,
        *mean_and_reach(difference["score"], with_sign),
        f"{difference['wins']}-{difference['losses']}-{difference['ties']}",
        "unknown" if cost is None else f"{'+' if cost >= 0 else ''}{dollars(cost)}",
        "unknown" if difference["seconds"] is None else f"{difference['seconds']['mean']:+z.1f}",
        difference["verdict"],
    )
    for name, gap in difference["criteria"].items():
        yield (pair, name, *mean_and_reach(gap, with_sign))
    if found := difference["with_people"] or difference["people"]:
        of = "all texts" if difference["with_people"] else "rated texts"
        reach = mean_and_reach(found, with_sign)
        yield (pair, of, str(found["count"]), *reach, f"{difference['trust']:.2f}")


def mean_and_reach(found: Any, number: Callable[[float], str]) -> tuple[str, str]:
    if found is None:
        return "unknown", "none"
    if found["low"] is None or found["high"] is None:
        return number(found["mean"]), "none"
    return number(found["mean"]), f"{number(found['low'])} to {number(found['high'])}"


def in_lines(printed: str) -> list[str]:
    """The lines of tables, with one space between cells."""
    return [" ".join(line.split()) for line in printed.splitlines()]


class RowCells(HTMLParser):
    """The rows of all tables of a page, its whole text, and the classes of its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, ...]] = []
        self.text = ""
        self.classes: list[str | None] = []
        self._cells: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.classes.append(dict(attrs).get("class"))
        if tag == "tr":
            self._cells = []
        if tag == "td" and self._cells is not None:
            self._cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._cells is not None:
            self.rows.append(tuple(self._cells))
            self._cells = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cells:
            self._cells[-1] += data


@pytest.fixture
def gate(api: ComparingApi, folder: Path) -> Compare:
    """Compare one setting; the scores of setting b are stored as baseline.json."""

    def run(setting: str, *more: str) -> Result:
        files = ("--texts", f"{folder}/texts", "--a", f"{folder}/{setting}.json")
        return CliRunner().invoke(app, ["compare", *files, *more], env={"HONE_SERVER": api.url})

    stored = run("b", "--json")
    assert stored.exit_code == 0, stored.output
    (folder / "baseline.json").write_text(stored.stdout)
    return lambda setting, *more: run(setting, "--baseline", f"{folder}/baseline.json", *more)


def test_a_setting_that_is_worse_than_stored_scores_fails_the_gate(
    gate: Compare, folder: Path
) -> None:
    reports = ("--summary", f"{folder}/out.md", "--junit", f"{folder}/out.xml")
    worse = gate("a", "--max-drop", "0.02", *reports)
    assert worse.exit_code == 4, worse.output
    assert "a - baseline" in worse.stdout
    assert "**Too much worse: a against baseline: worse (-0.3" in (folder / "out.md").read_text()
    suite = ET.parse(folder / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert gate("a", "--max-drop", "0.5").exit_code == 0
    assert gate("b", *reports).exit_code == 0
    assert (folder / "out.md").read_text().startswith("## ✅ hone compare")


def test_the_summary_does_not_call_a_run_good_that_lacks_a_text(
    gate: Compare, api: ComparingApi, folder: Path
) -> None:
    (folder / "b.json").write_text(json.dumps({**CRITERIA, "threshold": 0.95}))
    api.status_of = lambda body: Status.FAILED if body["draft"] == "Text 3." else Status.SUCCEEDED
    done = gate("b", "--max-drop", "1", "--summary", f"{folder}/out.md")
    assert done.exit_code == 3, done.output
    assert (folder / "out.md").read_text().startswith("## ❌ hone compare")


def test_texts_that_the_baseline_does_not_have_are_left_out(gate: Compare, folder: Path) -> None:
    (folder / "texts" / "mail-0.txt").write_text("Another text.")
    done = gate("a")
    assert "The baseline does not have 1 text, judged alike." in done.stdout
    assert "0-5-0" in done.stdout
    assert done.exit_code == 0  # five texts are too few for a verdict


def test_a_stored_text_that_waited_for_a_reviewer_does_not_count_as_missing(
    gate: Compare, folder: Path
) -> None:
    stored = json.loads((folder / "baseline.json").read_text())
    waiting = {"status": "paused", "path": None, "score": None, "passed": False}
    stored["texts"][0]["settings"]["a"] |= waiting
    (folder / "baseline.json").write_text(json.dumps(stored))
    done = gate("a")
    assert "Where a text is missing" not in done.stdout
    assert "0-5-0" in done.stdout


@pytest.mark.parametrize("stored", ["{", "[]", '{"settings": [], "texts": []}'])
def test_a_baseline_that_is_none_is_refused(gate: Compare, folder: Path, stored: str) -> None:
    (folder / "baseline.json").write_text(stored)
    refused = gate("a")
    assert (refused.exit_code, "is not what" in refused.stderr) == (1, True), refused.stderr


def test_a_baseline_by_another_judge_is_refused(gate: Compare, folder: Path) -> None:
    (folder / "judge.json").write_text(json.dumps({"criteria": [{"name": "tone"}]}))
    refused = gate("a", "--judge", f"{folder}/judge.json")
    assert (refused.exit_code, "judged alike" in refused.stderr) == (1, True), refused.stderr


def test_the_workflow_to_copy_runs_the_gate(gate: Compare, api: ComparingApi, folder: Path) -> None:
    workflow = yaml.safe_load((EXAMPLES / "compare" / "workflow.yml").read_text())
    (command,) = [
        step["run"]
        for step in workflow["jobs"]["compare"]["steps"]
        if step.get("name") == "Compare"
    ]
    (folder / "judge.json").write_text(json.dumps(CRITERIA))
    (folder / "settings.json").write_text((folder / "a.json").read_text())
    given = command.replace("hone/", f"{folder}/").replace("$GITHUB_STEP_SUMMARY", f"{folder}/s.md")
    reports = [f"{folder}/{name}" for name in ("junit.xml", "comparison.html")]
    for name in ("junit.xml", "comparison.html"):
        given = given.replace(f" {name}", f" {folder}/{name}")
    done = CliRunner().invoke(app, shlex.split(given)[1:], env={"HONE_SERVER": api.url})
    assert done.exit_code == 4, done.output
    assert all(Path(report).read_text() for report in (*reports, f"{folder}/s.md"))
