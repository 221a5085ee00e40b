"""What the pages on requests, endings, judging and usage show is what the server does."""

import json
import re
from pathlib import Path
from typing import Any, get_args

from app.contract.drafts import EditsReport, Escape
from app.contract.judgement import Comparison, Issue, IssueState
from app.contract.requests import RefinementRequest
from app.contract.statistics import KEPT_DAYS, LONGEST_VALUE, Dimension, InsightList
from app.contract.status import BLOCKING, Caveat, blocks
from app.store.redis.scripts import MOST_SUMS
from workers.editor.rules import FEWEST_JUDGED
from workers.engine.drafting import GOOD, LONG
from workers.engine.moves import SAME_MESSAGE, SAME_PLACE
from workers.engine.prompts import DIVERSE
from workers.play.journal import MOST_CAVEATS

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"```json\n(.*?)```", re.DOTALL)


def shown(page: str) -> list[Any]:
    """Return the examples of a page; members that are shown by themselves become an object."""
    blocks = BLOCK.findall((DOCS / page).read_text())
    return [json.loads(it if it.startswith("{") else f"{{{it}}}") for it in blocks]


def test_every_request_on_the_page_is_understood() -> None:
    requests = [it for it in shown("requests.md") if "task" in it or "draft" in it]
    assert [bool(it.get("outputs")) for it in requests] == [False, False, False, True]
    for it in requests:
        RefinementRequest.model_validate(it)


def test_the_report_of_edits_on_the_page_is_the_servers() -> None:
    told, *_ = [it["edits"] for it in shown("requests.md") if isinstance(it.get("edits"), dict)]
    assert EditsReport.model_validate(told).applied == 2
    text = " ".join((DOCS / "requests.md").read_text().split())
    assert f"at least {LONG:,} characters that scores at least {GOOD}" in text


def test_the_comparison_on_the_page_is_one_that_the_server_could_give() -> None:
    (told,) = [it["comparison"] for it in shown("requests.md") if "comparison" in it]
    assert Comparison.model_validate(told).verdict == "better"


def test_the_page_on_endings_names_every_caveat_and_what_it_does() -> None:
    asked, told = shown("endings.md")
    assert RefinementRequest.model_validate(asked).accept == ("unverified",)
    (caveat,) = map(Caveat.model_validate, told["caveats"])
    assert blocks([caveat], frozenset())
    text = (DOCS / "endings.md").read_text()
    table = text.partition("## `result.caveats`")[2].partition("| where |")[0]
    rows = {it[1]: it[2] for it in re.finditer(r"\| `(\w+)` \| .* \| (.*) \|\n", table)}
    assert {code for code, passed in rows.items() if passed == "no"} == BLOCKING
    others = {"code", "text_missing", "item_dropped", "lower_score", "forgeable", "summarized"}
    assert rows.keys() - BLOCKING == others
    assert f"at most {MOST_CAVEATS} caveats" in text
    assert all(f"`{way}`" in text for way in get_args(Escape))
    assert f"temperature {DIVERSE}" in text
    assert f"fewer than {FEWEST_JUDGED} different words" in text


def test_the_insights_on_the_page_are_ones_that_the_server_could_give() -> None:
    (told,) = shown("usage.md")
    InsightList.model_validate(told)
    text = (DOCS / "usage.md").read_text()
    assert f"kept for {KEPT_DAYS} days" in text
    assert f"at most {LONGEST_VALUE} characters" in text
    assert f"{MOST_SUMS:,} values a day" in text
    assert all(f"| `{it}` |" in text for it in Dimension)


def test_the_page_on_issues_says_what_is_the_same_issue() -> None:
    text = (DOCS / "judging.md").read_text()
    (issue,) = [it for it in shown("judging.md") if "since" in it]
    assert Issue.model_validate(issue).state is IssueState.RETURNED
    assert all(f"`{state}`" in text for state in IssueState)
    assert f"{SAME_MESSAGE} of their words" in text
    assert f"less than {SAME_PLACE} of their" in text
