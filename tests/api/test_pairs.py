"""Preference pairs: what people said of two drafts, as lines that a trainer reads."""

import json
from typing import Any

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import DRAFT, ManualWorker, ended, problem, submitted
from tests.api.test_ratings import rate


async def pairs(api: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await api.get("/v1/pairs", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in answer.text.split("\n") if line]


async def rated(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    refinement_id = await ended(api, worker, **fields)
    first, second = "iterations/0", "iterations/1"
    assert (await rate(api, refinement_id, path=second, better_than=first, by="Ann")).is_success
    return refinement_id


async def test_a_rating_makes_a_pair_with_the_request_as_prompt(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await rated(api, worker, task="Explain it.", context=[])
    (pair,) = await pairs(api)
    assert pair["prompt"] == f"Explain it.\n\n<draft>\n{DRAFT}\n</draft>\n\n"
    assert (pair["rejected"], pair["chosen"] != DRAFT) == (DRAFT, True)
    assert (pair["source"], pair["by"], pair["refinement"]) == ("rating", "Ann", refinement_id)


async def test_the_conversational_form_has_messages(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await rated(api, worker, context=[{"name": "a.md", "text": "Facts."}])
    (pair,) = await pairs(api, form="conversational")
    (asked,) = pair["prompt"]
    assert asked["role"] == "user"
    assert '<document name="a.md">\nFacts.\n</document>' in asked["content"]
    assert pair["rejected"] == [{"role": "assistant", "content": DRAFT}]


async def test_of_two_scores_by_one_person_the_higher_one_is_chosen_and_the_last_word_counts(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await rated(api, worker)
    for path, score, by in (
        ("iterations/0", 0.5, "Bo"),
        ("iterations/1", 0.5, "Bo"),
        ("iterations/1", 0.2, "Bo"),
        ("iterations/1", 0.9, "Cy"),
    ):
        await rate(api, refinement_id, path=path, score=score, by=by)
    await rate(api, refinement_id, path="iterations/0", better_than="iterations/1", by="Ann")
    found = {pair["by"]: pair["chosen"] for pair in await pairs(api)}
    assert found == {"Bo": DRAFT, "Ann": DRAFT}


async def test_a_preset_a_source_and_a_time_select(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await api.put("/v1/presets/mail", json={"task": "Write a mail."})
    of_preset = await rated(api, worker, preset="mail", task="Now.")
    await rated(api, worker)
    assert [it["refinement"] for it in await pairs(api, preset="mail")] == [of_preset]
    assert len(await pairs(api)) == 2
    assert await pairs(api, source=["review", "comparison"]) == []
    assert await pairs(api, submitted_to="2020-01-01T00:00:00Z") == []


@pytest.mark.parametrize("fields", [{"learn": False}, {"store": False}])
async def test_what_is_not_to_be_learnt_from_or_stored_is_left_out(
    api: httpx.AsyncClient, worker: WorkerStore, fields: dict[str, Any]
) -> None:
    await rated(api, worker, **fields)
    assert await pairs(api) == []


async def test_an_erased_refinement_and_one_without_a_judged_draft_have_none(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await submitted(api)
    await api.delete(f"/v1/refinements/{await rated(api, worker)}")
    assert await pairs(api) == []


async def test_what_was_said_of_a_draft_that_a_retry_has_replaced_makes_no_pair(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    await manual.judge(1, "Seen.", 0.5)
    await manual.fail("iterations/1/check")
    await rate(api, refinement_id, path="iterations/0", better_than="iterations/1")
    assert [pair["rejected"] for pair in await pairs(api)] == ["Seen."]
    await api.post(f"/v1/refinements/{refinement_id}/retry")
    again = await ManualWorker.claim(worker, refinement_id)
    await again.judge(1, "Not seen.", 0.5)
    assert await pairs(api) == []


async def test_every_page_of_a_long_list_is_read(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await rated(api, worker)
    for _ in range(120):
        await submitted(api)
    assert len(await pairs(api)) == 1
    assert (await api.head("/v1/pairs")).text == ""


async def test_texts_of_every_script_stay_one_line_each(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    text = 'Zwei\u2028Zeilen\r\nund \U0001f980 \u0634\u0643\u0631\u0627 \x85 \\ "quoted"'
    refinement_id = await submitted(api, draft=text)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, text, 0.4)
    await manual.judge(1, "One line.", 0.5)
    await rate(api, refinement_id, path="iterations/1", better_than="iterations/0")
    answer = await api.get("/v1/pairs")
    (line,) = answer.text.splitlines()
    assert json.loads(line)["rejected"] == text


async def test_a_preset_that_never_was_is_named_and_one_that_was_removed_has_its_pairs(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await api.put("/v1/presets/mail", json={"task": "Write a mail."})
    assert await pairs(api, preset="mail") == []
    await rated(api, worker, preset="mail")
    await api.delete("/v1/presets/mail")
    assert len(await pairs(api, preset="mail")) == 1
    answer = await api.get("/v1/pairs", params={"preset": "other"})
    assert "preset other was not found" in problem(answer, 404, "not_found")["detail"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"perset": "mail"}, "perset"),
        ({"preset": "../x"}, "preset"),
        ({"form": "chat"}, "form"),
        ({"source": "rumour"}, "source"),
        ({"submitted_from": "yesterday"}, "submitted_from"),
    ],
)
async def test_a_wrong_parameter_exports_nothing(
    api: httpx.AsyncClient, query: dict[str, str], pointer: str
) -> None:
    found = problem(await api.get("/v1/pairs", params=query), 422, "invalid_request")
    assert pointer in found["errors"][0]["pointer"]
