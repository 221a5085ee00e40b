"""A draft that is an object over HTTP: what is stored, refused, continued and returned."""

import json
from typing import Any

import httpx
import pytest

from app.contract.object_drafts import object_text
from app.store import WorkerStore
from tests.api.api_client import ManualWorker, problem, submitted
from tests.api.test_reviews import events

JSON = {"Content-Type": "application/json"}
GOOD = {"custom_id": "b", "request": {"draft": "Say it."}}
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


async def test_a_line_of_a_batch_is_refused_like_a_request(api: httpx.AsyncClient) -> None:
    lines = ('{"custom_id": "a", "request": {"draft": {"n": 1e400}}}', json.dumps(GOOD))
    headers = {"Content-Type": "application/x-ndjson"}
    batch = (await api.post("/v1/batches", content="\n".join(lines), headers=headers)).json()
    (error,) = batch["errors"]
    assert error["error"]["errors"][0]["pointer"] == "/request/draft/n"
    lines = ('{"batch": {"defaults": {"draft": {"n": 1e400}}}}', json.dumps(GOOD))
    answer = await api.post("/v1/batches", content="\n".join(lines), headers=headers)
    (error,) = problem(answer, 422, "invalid_request")["errors"]
    assert error["pointer"] == "/batch/defaults/draft/n"


async def test_numbers_that_a_double_holds_come_back_as_they_are(api: httpx.AsyncClient) -> None:
    numbers = (
        '{"a": 39.90, "b": -0.1, "c": 9007199254740992, "d": 5e-324, "e": 1.7976931348623157e308}'
    )
    body = f'{{"draft": {numbers}, "task": "Say it."}}'
    created = await api.post("/v1/refinements", content=body, headers=JSON)
    found = (await api.get(f"{created.headers['Location']}/request")).json()
    assert found["draft"] == json.loads(numbers)


async def in_review(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    refinement_id = await submitted(api, draft=ROW, review={"when": "each_iteration"}, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, object_text(ROW), 0.4)
    await manual.pause()
    return f"/v1/refinements/{refinement_id}/reviews"


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ("hello", "it is not one JSON object"),
        ("[1]", "it is not one JSON object"),
        ('{"sku": "L"}', "lacks the member /price"),
        (json.dumps({**ROW, "price": 1}), "/price is locked and must stay 39.9"),
        (json.dumps({**ROW, "text": 1}), '/text must be of the type "string"'),
        (json.dumps({**ROW, "more": 1}), "the object has the member 'more'"),
        (json.dumps({**ROW, "text": "\ud83d"}), "/text: it has half a surrogate pair"),
        (json.dumps(ROW)[:-1] + ', "text": "B"}', "/text: the object has this name twice"),
        (json.dumps(ROW).replace("39.9", "1e400"), "1e400 is not kept exactly"),
    ],
)
async def test_a_reviewers_object_that_cannot_be_a_draft_says_what_to_change(
    api: httpx.AsyncClient, worker: WorkerStore, draft: str, words: str
) -> None:
    url = await in_review(api, worker, locked=["/price"])
    answer = await api.post(url, json={"action": "replace", "draft": draft})
    (error,) = problem(answer, 422, "invalid_request")["errors"]
    assert error["pointer"] == "/draft"
    assert words in error["detail"]


async def test_a_reviewers_object_becomes_the_text_in_the_order_given(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await in_review(api, worker)
    turned = json.dumps({"text": "A lamp.", "price": 39, "sku": "L"})
    answer = await api.post(url, json={"action": "replace", "draft": turned})
    assert answer.status_code == 202
    (*_, last) = await events(api, answer.json()["id"])
    assert last["data"]["draft"] == object_text({"sku": "L", "price": 39, "text": "A lamp."})


async def test_spans_in_a_review_of_an_object_are_refused(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    models = {"generator": "openai:gpt-5-mini", "critic": "offline:editor"}
    said = {"action": "revise", "feedback": "Shorter.", "spans": [{"quote": "A lamp"}]}
    url = await in_review(keyed_api, keyed_worker, models=models)
    answer = await keyed_api.post(url, json=said)
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/spans"


async def test_a_schema_that_no_object_satisfies_is_refused(api: httpx.AsyncClient) -> None:
    for schema in ({"type": "array"}, {"enum": ["a"]}, {"const": 1}, False):
        body = {"draft": ROW, "validators": [{"kind": "json_schema", "schema": schema}]}
        answer = await api.post("/v1/refinements", json=body)
        (error,) = problem(answer, 422, "invalid_request")["errors"]
        assert error["pointer"] == "/validators/0/schema"


@pytest.mark.parametrize(
    ("locked", "changes", "constants"),
    [
        (["/sku"], {}, ["sku"]),
        (["/sku"], {"threshold": 0.7}, ["sku"]),
        (["/sku"], {"locked": ["/price"]}, ["price"]),
        (["/sku"], {"locked": []}, []),
        ([], {"locked": ["/sku", "/price"]}, ["sku", "price"]),
        (["/sku"], {"validators": []}, ["sku"]),
    ],
)
async def test_a_continuation_has_a_form_of_its_own(
    api: httpx.AsyncClient,
    worker: WorkerStore,
    locked: list[str],
    changes: dict[str, Any],
    constants: list[str],
) -> None:
    refinement_id = await submitted(api, draft=ROW, locked=locked, validators=[{"kind": "json"}])
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, json.dumps({"text": "B", "price": 39.9, "sku": ROW["sku"]}), 0.4)
    await manual.complete()
    answer = await api.post(f"/v1/refinements/{refinement_id}/continue", json=changes)
    assert answer.status_code == 202, answer.text
    request = (await api.get(f"{answer.headers['Location']}/request")).json()
    members = request["validators"][-1]["schema"]["properties"]
    assert [name for name, form in members.items() if "const" in form] == constants[::-1]
    assert len(request["validators"]) == (1 if "validators" in changes else 2)


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
