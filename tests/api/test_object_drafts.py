"""A draft that is an object over HTTP: what is stored, refused, continued and returned."""

import json
from typing import Any

import httpx
import pytest

from app.contract.object_drafts import object_text
from app.store import WorkerStore
from tests.api.api_client import ManualWorker, problem, submitted

JSON = {"Content-Type": "application/json"}
ROW = {"sku": "é\u2028", "price": 39.9, "text": "A lamp, it is."}


async def test_the_request_has_the_object_and_its_form(api: httpx.AsyncClient) -> None:
    refinement_id = await submitted(api, draft=ROW, locked=["/price"])
    found = (await api.get(f"/v1/refinements/{refinement_id}/request")).json()
    assert (found["draft"], found["locked"]) == (ROW, ["/price"])
    (form,) = found["validators"]
    assert form["schema"]["properties"]["price"] == {"const": 39.9}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"draft": [ROW]}, "/draft"),
        ({"draft": {}}, "/draft"),
        ({"draft": ROW, "locked": ["/prize"]}, "/locked/0"),
        ({"draft": ROW, "strategy": {"kind": "nested"}}, "/draft"),
        ({"draft": {f"m{number}": "" for number in range(1_001)}}, "/draft"),
    ],
)
async def test_what_is_wrong_with_an_object_has_its_place(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    answer = await api.post("/v1/refinements", json={"task": "Say it.", **fields})
    found = problem(answer, 422, "invalid_request")
    assert {it["pointer"] for it in found["errors"]} == {pointer}


NOT_KEPT = "is not kept exactly: write it as a string"


@pytest.mark.parametrize(
    ("member", "pointer", "words"),
    [
        ('"n": 1e400', "/draft/n", NOT_KEPT),
        ('"n": [{"~a": 1e-400}]', "/draft/n/0/~0a", NOT_KEPT),
        ('"n": 12345678901234567890.5', "/draft/n", NOT_KEPT),
        ('"n": 9007199254740993', "/draft/n", NOT_KEPT),
        ('"n": 0.1234567890123456789012', "/draft/n", NOT_KEPT),
        ('"n": {"a": 1, "b": 2, "a": 3}', "/draft/n/a", "this name twice"),
        ('"a": 1, "a": 1', "/draft/a", "this name twice"),
    ],
)
@pytest.mark.parametrize("more", ["", '"locked": ["/n"], ', '"preset": null, '])
async def test_what_would_be_changed_by_reading_and_writing_is_refused(
    api: httpx.AsyncClient, member: str, pointer: str, words: str, more: str
) -> None:
    body = f'{{"task": "Say it.", {more}"draft": {{{member}}}}}'
    answer = await api.post("/v1/refinements", content=body, headers=JSON)
    (error,) = problem(answer, 422, "invalid_request")["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


async def test_numbers_that_a_double_holds_come_back_as_they_are(api: httpx.AsyncClient) -> None:
    numbers = (
        '{"a": 39.90, "b": -0.1, "c": 9007199254740992, "d": 5e-324, "e": 1.7976931348623157e308}'
    )
    body = f'{{"draft": {numbers}, "task": "Say it."}}'
    created = await api.post("/v1/refinements", content=body, headers=JSON)
    found = (await api.get(f"{created.headers['Location']}/request")).json()
    assert found["draft"] == json.loads(numbers)


async def test_a_continuation_begins_with_the_object(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api, draft=ROW, locked=["/sku"])
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, object_text(ROW), 0.4)
    better = {**ROW, "text": "A lamp."}
    await manual.judge(1, object_text(better), 0.5)
    await manual.complete()
    answer = await api.post(f"/v1/refinements/{refinement_id}/continue", json={})
    assert answer.status_code == 202, answer.text
    request = (await api.get(f"{answer.headers['Location']}/request")).json()
    assert (request["draft"], request["locked"]) == (better, ["/sku"])
    assert len(request["validators"]) == 1
