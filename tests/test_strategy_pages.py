"""Every strategy has a page with a request that this server accepts, and one of the right kind."""

import re

import pytest

from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from benchmarks.examples import EDITED, EXAMPLES, PAGES, played
from benchmarks.scripted_examples import COMPOSED, SCRIPTED

RUN = ("SQL that returns the rows expected", "a function and its hidden cases")
"""The compositions whose requests are long, and shown as they were played."""


@pytest.mark.parametrize("kind", STRATEGIES)
def test_the_page_of_a_strategy_asks_for_it_and_says_when_not_to(kind: str) -> None:
    page = (PAGES / f"{kind}.md").read_text()
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    requests = [RefinementRequest.model_validate_json(it, strict=True) for it in examples]
    assert requests
    assert {it.strategy.kind for it in requests} == {kind}
    assert "Do not use it" in page


def test_one_rule_says_what_a_stage_a_pass_and_a_part_have() -> None:
    composed = [kind for kind in STRATEGIES if "body" in str(STRATEGIES[kind].model_json_schema())]
    pages = {kind: (PAGES / f"{kind}.md").read_text() for kind in composed}
    assert "\n## What a part has\n" in pages.pop("nested")
    assert pages.keys() == {"multi_pass", "stepwise"}
    assert [kind for kind, it in pages.items() if "(nested.md#what-a-part-has)" not in it] == []


def test_the_compositions_on_their_page_are_accepted() -> None:
    page = (PAGES.parent / "compositions.md").read_text()
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    requests = [RefinementRequest.model_validate_json(it, strict=True) for it in examples]
    assert [it.strategy.depth() for it in requests] == [2, 2, 2, 1, 1, 1, 1, 3]
    others = ("a letter that two people approve", "a booking that is refused")
    played = [COMPOSED[name].request for name in (*RUN, *others)]
    assert requests[3:7] == [RefinementRequest.model_validate(it) for it in played]


def test_a_script_plays_only_what_the_editor_cannot() -> None:
    assert set(EXAMPLES) <= set(EDITED)
    assert set(SCRIPTED) <= set(STRATEGIES) - set(EDITED)


def test_every_page_is_that_of_a_strategy() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == STRATEGIES.keys()


@pytest.mark.parametrize("kind", SCRIPTED)
async def test_what_a_script_plays_shows_calls_and_path_and_no_score(kind: str) -> None:
    row, path = await played(kind)
    _, _, calls, reason, score, _, _ = row.split("|")
    assert int(calls) > 1
    assert reason.strip()
    assert score.strip() == "scripted"
    assert " → " in path
