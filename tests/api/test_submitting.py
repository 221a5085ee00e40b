"""Submitting, and what is refused at once."""

import asyncio
from typing import Any

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import REQUEST, ManualWorker, ended, first_listed, problem, submitted


async def test_a_submission_is_accepted_with_where_and_when_to_look(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/refinements", json=REQUEST)
    snapshot = response.json()
    assert response.status_code == 202
    assert snapshot["status"] == "queued"
    assert response.headers["location"] == f"/v1/refinements/{snapshot['id']}"
    assert response.headers["etag"] == '"1"'
    assert int(response.headers["retry-after"]) > 0
    assert (await api.get(response.headers["location"])).json() == snapshot


async def test_what_was_submitted_can_be_read_again(api: httpx.AsyncClient) -> None:
    refinement_id = await submitted(api, threshold=0.5, metadata={"ticket": "4711"})
    request = (await api.get(f"/v1/refinements/{refinement_id}/request")).json()
    assert request["threshold"] == 0.5
    assert request["metadata"] == {"ticket": "4711"}
    assert request["max_iterations"] == 3
    assert (await api.post("/v1/refinements", json=request)).status_code == 202


async def test_twenty_equal_submissions_with_one_key_are_one_refinement(
    api: httpx.AsyncClient,
) -> None:
    keys = ["k-1", '"k-1"'] * 10
    answers = await asyncio.gather(
        *(api.post("/v1/refinements", json=REQUEST, headers={"Idempotency-Key": k}) for k in keys)
    )
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 19
    assert len((await api.get("/v1/refinements")).json()["data"]) == 1


async def test_a_key_with_another_body_is_refused(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    await api.post("/v1/refinements", json=REQUEST, headers=headers)
    other = await api.post("/v1/refinements", json={"draft": "Another."}, headers=headers)
    problem(other, 422, "idempotency_mismatch")


async def test_a_replay_answers_with_the_refinement_as_it_is_now(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await api.post("/v1/refinements", json=REQUEST, headers=headers)
    manual = await ManualWorker.claim(worker, first.json()["id"])
    await manual.judge(0, REQUEST["draft"], 0.9)
    await manual.complete()
    again = await api.post("/v1/refinements", json=REQUEST, headers={**headers, "Prefer": "wait=9"})
    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["status"] == "succeeded"


async def test_prefer_wait_answers_as_soon_as_it_has_ended(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    waiting = asyncio.create_task(
        api.post("/v1/refinements", json=REQUEST, headers={"Prefer": "wait=30"})
    )
    manual = await ManualWorker.claim(worker, await first_listed(api))
    await manual.judge(0, REQUEST["draft"], 0.9)
    await manual.complete()
    response = await waiting
    assert response.status_code == 200
    assert response.headers["preference-applied"] == "wait=30"
    assert response.json()["result"]["draft"] == REQUEST["draft"]


async def test_prefer_wait_is_a_202_when_the_time_is_over(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/refinements", json=REQUEST, headers={"Prefer": "wait=0"})
    assert response.status_code == 202
    assert response.headers["preference-applied"] == "wait=0"


SELF_CORRECTION = {"strategy": {"kind": "self_correction"}, "validators": [{"kind": "json"}]}


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        ({"draft": None}, "/draft", "cannot write"),
        (
            {"criteria": [{"name": "warmth", "description": "Sounds like a friend."}]},
            "/criteria",
            "measure",
        ),
        (
            {"strategy": {"kind": "chain_of_verification"}},
            "/models",
            "asks and answers questions about what a text says, which offline:editor cannot",
        ),
        (
            {"draft": "1. It is so.", "strategy": {"kind": "reasoning_revision"}},
            "/models",
            "reasons in steps and finds the faulty one, which offline:editor cannot",
        ),
        (
            {
                "draft": None,
                "strategy": {"kind": "self_consistency", "n": 3},
            },
            "/models",
            "answers a task several times and compares the answers, which offline:editor cannot",
        ),
        (
            {"strategy": {"kind": "plan_execute"}},
            "/models",
            "plans and carries out steps, which offline:editor cannot",
        ),
        ({"models": {"critic": "nobody:x"}}, "/models/critic", "openai:NAME"),
        (
            {"critics": {"panel": [{"name": "a"}, {"name": "b", "model": "openai:x"}]}},
            "/critics/panel/1/model",
            "OPENAI_API_KEY",
        ),
        (
            {"critics": {"panel": [{"name": "a", "model": {"model": "nobody:x"}}]}},
            "/critics/panel/0/model/model",
            "openai:NAME",
        ),
        (
            {
                "critics": {"panel": [{"name": "a"}, {"name": "b"}]},
                "models": {"critic": "openai:x"},
            },
            "/models/critic",
            "OPENAI_API_KEY",
        ),
        (
            {"critics": {"panel": [{"name": "a"}, {"name": "b", "perspective": "A lawyer."}]}},
            "/critics/panel/1",
            "does not support perspective and adversarial",
        ),
        (
            {"criteria": [{"name": "warmth"}], "critics": {"panel": [{"name": "a"}]}},
            "/criteria",
            "critics.panel",
        ),
        ({"critics": {"panel": [{"name": "again"}]}}, "/critics/panel/0/name", "`again`"),
        ({"criteria": "automatic"}, "/criteria", "`auto` or a list"),
        ({"criteria": [{"name": 7}]}, "/criteria/0/name", "string"),
        (
            {"criteria": "auto", "models": {"critic": "openai:x"}},
            "/models/critic",
            "OPENAI_API_KEY",
        ),
        (
            {"models": {"generator": {"model": "openai:x"}}},
            "/models/generator/model",
            "OPENAI_API_KEY",
        ),
        ({"models": {"critic": "anthropic:x"}}, "/models/critic", "ANTHROPIC_API_KEY"),
        ({"validators": [{"kind": "regex", "pattern": "("}]}, "/validators/0/pattern", "RE2"),
        (
            {"validators": [{"kind": "json_schema", "schema": {"type": 5}}]},
            "/validators/0/schema/type",
            "5",
        ),
        (
            {**SELF_CORRECTION, "compare": True, "models": {"critic": "anthropic:x"}},
            "/models/critic",
            "ANTHROPIC_API_KEY",
        ),
        (
            {"outputs": [{"name": "subject", "instructions": "A subject line."}]},
            "/outputs",
            "models.generator",
        ),
        ({"threshold": 1.5}, "/threshold", "at most 1"),
        ({"draft": " \n\u00a0"}, "/draft", "only white space"),
        ({"task": "\t"}, "/task", "only white space"),
        ({"color": "red"}, "/color", "is not a field"),
    ],
)
async def test_what_cannot_end_well_is_refused_with_what_to_do(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str, words: str
) -> None:
    refused = problem(
        await api.post("/v1/refinements", json={**REQUEST, **fields}), 422, "invalid_request"
    )
    (error,) = refused["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]
    assert words in refused["detail"]


async def test_every_example_of_a_request_is_understood(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    preset = await api.put(
        "/v1/presets/support-mail", json={"models": {"generator": "openai:gpt-5-mini"}}
    )
    assert preset.status_code in {200, 201}
    content = document["paths"]["/v1/refinements"]["post"]["requestBody"]["content"]
    for example in content["application/json"]["examples"].values():
        response = await api.post("/v1/refinements", json=example["value"])
        assert (
            response.status_code == 202
            or "_KEY is not set" in response.text
            or "API_KEY" in response.text
        )


async def test_a_body_that_is_not_json_is_another_media_type(api: httpx.AsyncClient) -> None:
    response = await api.post(
        "/v1/refinements", content=b"{}", headers={"Content-Type": "text/plain"}
    )
    problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_refused(api: httpx.AsyncClient, announced: bool) -> None:
    body = b'{"task":"%b"}' % (b"x" * 400_000)

    async def chunks() -> Any:
        for start in range(0, len(body), 50_000):
            yield body[start : start + 50_000]

    response = await api.post(
        "/v1/refinements",
        content=body if announced else chunks(),
        headers={"Content-Type": "application/json"},
    )
    assert "300000 bytes" in problem(response, 413, "too_large")["detail"]


async def test_refinements_are_listed_newest_first_in_stable_pages(api: httpx.AsyncClient) -> None:
    ids = [await submitted(api, metadata={"n": str(n % 2)}) for n in range(5)]
    page = await api.get("/v1/refinements?limit=2&metadata.n=0&status=queued")
    assert [each["id"] for each in page.json()["data"]] == [ids[4], ids[2]]
    await submitted(api, metadata={"n": "0"})
    path, _, rel = page.headers["link"].partition(">")
    assert rel == '; rel="next"'
    rest = await api.get(path.removeprefix("<"))
    assert [each["id"] for each in rest.json()["data"]] == [ids[0]]
    assert rest.json()["next_cursor"] is None
    assert "link" not in rest.headers


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("limit=0", ["/limit"]),
        ("limit=x&status=odd", ["/status", "/limit"]),
        ("color=red", ["/color"]),
        ("metadata.a%2Fb=1&metadata.a%2Fb=2", ["/metadata.a~1b"]),
        ("&".join(f"metadata.k{n}=1" for n in range(17)), ["/metadata."]),
    ],
)
async def test_a_query_that_is_invalid_is_refused_with_the_names_of_its_parameters(
    api: httpx.AsyncClient, query: str, pointers: list[str]
) -> None:
    found = problem(await api.get(f"/v1/refinements?{query}"), 422, "invalid_request")
    assert sorted(it["pointer"] for it in found["errors"]) == sorted(pointers)


@pytest.mark.parametrize("cursor", ["odd", "x" * 501])
async def test_a_cursor_that_cannot_be_read_is_malformed(
    api: httpx.AsyncClient, cursor: str
) -> None:
    problem(await api.get(f"/v1/refinements?cursor={cursor}"), 400, "malformed_header")


LENGTH = {"kind": "length", "max_words": 9}
RUN = {"kind": "sql", "dialect": "sqlite", "tables": {"a/b": ["x"]}, "rows": {"a/b": [[1], [2]]}}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        (
            {
                "strategy": {
                    "kind": "stepwise",
                    "stages": [{"name": "a", "validators": [LENGTH] * 11}],
                }
            },
            "/strategy/stages/0/validators",
        ),
        ({"strategy": {"kind": "stepwise", "stages": []}}, "/strategy/stages"),
        (
            {"validators": [LENGTH, {**RUN, "tables": {"a/b": ["x", "y"]}}]},
            "/validators/1/rows/a~1b/0",
        ),
        ({"validators": [{**RUN, "tables": {"a": ["x"]}}]}, "/validators/0/rows/a~1b"),
        ({"validators": [{**RUN, "tables": {"a/b": ["x"], "c": []}}]}, "/validators/0/tables/c"),
        ({"validators": [{**RUN, "dialect": "mysql"}]}, "/validators/0/dialect"),
        ({"validators": [{"kind": "sql", "expected_rows": []}]}, "/validators/0/expected_rows"),
    ],
)
async def test_an_invalid_validator_is_one_error_that_points_at_what_is_wrong(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    response = await api.post("/v1/refinements", json={**REQUEST, **fields})
    found = problem(response, 422, "invalid_request")
    assert [it["pointer"] for it in found["errors"]] == [pointer]


async def test_an_ended_refinement_is_listed_by_its_status(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    await submitted(api)
    page = (await api.get("/v1/refinements?status=succeeded")).json()
    assert [each["id"] for each in page["data"]] == [refinement_id]
