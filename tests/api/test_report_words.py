"""Words of a report: every status, stop reason and code has some, and no text becomes markup."""

import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.contract.drafts import Escape
from app.contract.judgement import Comparison, IssueState, ScoreFrom
from app.contract.limits import Limits
from app.contract.reviews import PausedOnTimeout, ReviewAction, ReviewWhen
from app.contract.status import BLOCKING, ENDED_BY, Status, StopReason
from app.service.report import wording
from app.service.report.markdown import code_block, escaped, table
from workers.models.port import ModelError
from workers.models.remote import NO_MODEL, OVERLOADED

ROOT = Path(__file__).parent.parent.parent
FAMILIES = "unreadable|reply_cut|reply|empty|unusable|model|validator|nothing|internal"
CODE = re.compile(rf"\"((?:{FAMILIES})_[a-z]+|incompatible)\"")


def codes() -> set[str]:
    """Return the codes that workers fail with, as their sources spell them."""
    sources = [module.read_text() for module in (ROOT / "workers").rglob("*.py")]
    found = {code for source in sources for code in CODE.findall(source)} - NO_MODEL - OVERLOADED
    of_pydantic = {"model_validate", "model_dump", "model_config", "model_type"}
    return (found - of_pydantic - wording.CAVEATS.keys()) | codes_of(ModelError)


def codes_of(error: type[ModelError]) -> set[str]:
    """Return the codes of a way in which a call fails, and of all that are more exact."""
    return {error.code}.union(*(codes_of(it) for it in error.__subclasses__()))


def test_every_status_and_every_stop_reason_has_its_words() -> None:
    assert wording.STATUSES.keys() == set(Status)
    assert ENDED_BY.keys() == set(StopReason)


def test_every_code_that_a_worker_fails_with_has_its_words() -> None:
    assert len(codes()) >= 15
    assert codes() | {"poisoned", "budget_exhausted", "finished_early"} == wording.ERRORS.keys()
    assert wording.error_of("of_a_newer_worker") == "It could not continue."


def test_every_other_choice_of_the_contract_has_its_words() -> None:
    assert wording.ISSUES.keys() == set(IssueState)
    assert wording.ESCAPES.keys() == set(get_args(Escape))
    assert wording.CAVEATS.keys() == {
        *BLOCKING,
        "text_missing",
        "item_dropped",
        "lower_score",
        "forgeable",
        "summarized",
    }
    assert wording.SCORES_FROM.keys() == set(get_args(get_args(ScoreFrom)[0]))
    assert wording.ACTIONS.keys() == set(get_args(get_args(ReviewAction)[0]))
    assert wording.TIMEOUTS.keys() == set(get_args(PausedOnTimeout))
    assert wording.WHENS.keys() == set(get_args(ReviewWhen))
    assert wording.VERDICTS.keys() == set(get_args(Comparison.model_fields["verdict"].annotation))
    assert wording.LIMITS.keys() == set(Limits.model_fields)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "not measured"), (0.0, "0.00"), (0.85, "0.85"), (0.84999, "0.8499"), (1 / 3, "0.3333")],
)
def test_a_score_is_never_rounded_up(value: float | None, shown: str) -> None:
    assert wording.score(value) == shown


SHAPES = {
    "list": ["bullet_list", "list_item", "paragraph"],
    "cell": ["table", "thead", "tr", "th", "tbody", "tr", "td"],
}


@given(st.text(st.sampled_from("`|\\\n<>&*_[]()#~!-+=1. :/abw"), min_size=1, max_size=60))
def test_any_text_is_shown_as_it_is_in_a_line_a_cell_and_a_block(text: str) -> None:
    reader = MarkdownIt("commonmark").enable("table")
    line = " ".join(text.split())
    assume(line)
    for shape, markdown in (
        ("list", f"- {escaped(text)}"),
        ("cell", table("h", [text], escaped)),
    ):
        tokens = reader.parse(markdown)
        opened = [token.type.removesuffix("_open") for token in tokens if token.nesting == 1]
        assert opened == SHAPES[shape]
        shown = [token for token in tokens if token.type == "inline"][-1].children or []
        assert {child.type for child in shown} == {"text"}
        assert "".join(child.content for child in shown) == line
    [block] = reader.parse(code_block(text))
    assert block.content == (text if text.endswith("\n") else f"{text}\n")
