"""Named defaults of a tenant for its requests."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from app.contract.overlays import OF_ONE_REQUEST, PartialRequest, require_possible
from app.store.presets import MOST_PRESETS
from app.store.redis import keys
from tests.api.api_client import problem
from tests.installed_package import ROOT

MAIL: dict[str, Any] = {
    "criteria": [{"name": "conciseness", "floor": 0.2}],
    "threshold": 0.7,
    "stop": {"max_seconds": 60},
    "metadata": {"kind": "mail"},
}
PATH = "/v1/presets/support-mail"
EXAMPLES = ROOT / "examples"
HOOK = {"url": "https://example.com/hook", "headers": {"Authorization": "Bearer hidden-4711"}}


async def test_a_preset_fills_in_what_the_request_does_not_have(api: httpx.AsyncClient) -> None:
    made = await api.put(PATH, json=MAIL)
    assert made.status_code == 201
    sent = {"preset": "support-mail", "draft": "In order to pay.", "threshold": 0.5}
    refinement = (await api.post("/v1/refinements", json=sent)).json()
    assert (refinement["threshold"], refinement["metadata"]) == (0.5, {"kind": "mail"})
    stored = (await api.get(f"/v1/refinements/{refinement['id']}/request")).json()
    assert (stored["preset"], stored["stop"]["max_seconds"]) == ("support-mail", 60)
    assert [it["name"] for it in stored["criteria"]] == ["conciseness"]


async def test_a_field_of_the_request_counts_as_a_whole_and_null_is_one(
    api: httpx.AsyncClient,
) -> None:
    await api.put(PATH, json={**MAIL, "review": {"when": "each_iteration"}})
    sent = {"preset": "support-mail", "draft": "A text.", "stop": {"max_tokens": 90_000}}
    made = await api.post("/v1/refinements", json={**sent, "review": None, "metadata": {}})
    stored = (await api.get(f"{made.headers['location']}/request")).json()
    assert (stored["stop"]["max_seconds"], stored["stop"]["max_tokens"]) == (600, 90_000)
    assert (stored["review"], stored["metadata"]) == (None, {})


async def test_presets_are_read_replaced_listed_and_removed(api: httpx.AsyncClient) -> None:
    await api.put("/v1/presets/b", json=MAIL)
    await api.put("/v1/presets/a", json=MAIL)
    replaced = await api.put("/v1/presets/b", json={"threshold": 0.9, "review": None})
    found = (replaced.status_code, replaced.json()["request"])
    assert found == (200, {"threshold": 0.9, "review": None})
    listed = (await api.get("/v1/presets")).json()["data"]
    assert [it["name"] for it in listed] == ["a", "b"]
    assert (await api.get("/v1/presets/b")).json() == replaced.json()
    assert (await api.delete("/v1/presets/b")).status_code == 204
    problem(await api.delete("/v1/presets/b"), 404, "not_found")
    problem(await api.get("/v1/presets/b"), 404, "not_found")


async def test_what_was_made_with_a_preset_stays_when_it_changes(api: httpx.AsyncClient) -> None:
    await api.put(PATH, json=MAIL)
    sent = {"preset": "support-mail", "draft": "A text."}
    key = {"Idempotency-Key": "once"}
    made = await api.post("/v1/refinements", json=sent, headers=key)
    await api.delete(PATH)
    path = made.headers["location"]
    assert (await api.get(f"{path}/request")).json()["threshold"] == 0.7
    problem(await api.post("/v1/refinements", json=sent), 422, "invalid_request")


async def test_an_unknown_preset_is_refused_with_the_names_that_are_near(
    api: httpx.AsyncClient,
) -> None:
    sent = {"preset": "suport-mails", "draft": "A text."}
    refused = problem(await api.post("/v1/refinements", json=sent), 422, "invalid_request")
    assert refused["detail"] == "there is no preset suport-mails: this tenant has none"
    for name in ("support-mail", "contract"):
        await api.put(f"/v1/presets/{name}", json=MAIL)
    refused = problem(await api.post("/v1/estimates", json=sent), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/preset"
    assert refused["detail"].endswith("this tenant has support-mail and 1 more")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"models": {"generator": "nobody:nothing"}}, "/models/generator"),
        ({"validators": [{"kind": "regex", "pattern": "("}]}, "/validators/0/pattern"),
    ],
)
async def test_an_error_in_a_field_of_the_preset_names_the_preset(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    await api.put(PATH, json=fields)
    sent = {"preset": "support-mail", "draft": "A text."}
    for path in ("/v1/refinements", "/v1/estimates"):
        refused = problem(await api.post(path, json=sent), 422, "invalid_request")
        (wrong,) = refused["errors"]
        assert wrong["pointer"] == pointer
        assert wrong["detail"].endswith("(a field of the preset support-mail)")


async def test_a_number_that_no_double_holds_is_refused_at_its_field(
    api: httpx.AsyncClient,
) -> None:
    await api.put(PATH, json=MAIL)
    content = b'{"preset": "support-mail", "draft": "In order to pay.", "threshold": 1e400}'
    headers = {"Content-Type": "application/json"}
    answer = await api.post("/v1/refinements", content=content, headers=headers)
    (error,) = problem(answer, 422, "invalid_request")["errors"]
    assert (error["pointer"], error["detail"]) == ("/threshold", "must be a finite number")


async def test_an_error_in_a_field_of_the_request_does_not_blame_the_preset(
    api: httpx.AsyncClient,
) -> None:
    await api.put(PATH, json=MAIL)
    sent = {"preset": "support-mail", "draft": "A text.", "threshold": 7}
    refused = problem(await api.post("/v1/refinements", json=sent), 422, "invalid_request")
    assert "preset" not in refused["errors"][0]["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 7},
        {"draft": "A text."},
        {"preset": "another"},
        {"strategy": {"kind": "none"}},
        {"task": "x" * 70_000},
    ],
)
async def test_what_no_preset_can_have_is_refused(
    api: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    problem(await api.put(PATH, json=wrong), 422, "invalid_request")
    problem(await api.get(PATH), 404, "not_found")


TWICE = [{"name": "tone"}, {"name": "tone", "description": "Warm."}]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"criteria": TWICE}, "/criteria"),
        ({"criteria": TWICE, "strategy": {"kind": "critique"}}, "/criteria"),
        ({"criteria": TWICE[:1], "strategy": {"kind": "self_correction"}}, "/criteria"),
        ({"strategy": {"kind": "best_of_n", "n": 4}, "max_iterations": 2}, "/max_iterations"),
        ({"outputs": [{"name": "subject", "instructions": "Short."}] * 2}, "/outputs"),
    ],
)
async def test_settings_with_which_every_request_would_be_invalid_are_refused(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    refused = problem(await api.put(PATH, json=fields), 422, "invalid_request")
    assert [wrong["pointer"] for wrong in refused["errors"]] == [pointer]
    problem(await api.get(PATH), 404, "not_found")


@pytest.mark.parametrize("path", [*EXAMPLES.glob("*.json")], ids=lambda path: path.stem)
def test_every_field_of_a_possible_request_can_be_in_a_preset_alone_or_with_the_others(
    path: Path,
) -> None:
    body = json.loads(path.read_text())
    given = {name: body[name] for name in body.keys() - {*OF_ONE_REQUEST}}
    for fields in (given, *({name: value} for name, value in given.items())):
        require_possible(fields)


async def test_secrets_of_a_preset_are_stored_encrypted_shown_nowhere_and_used(
    keyed_api: httpx.AsyncClient, redis_url: str
) -> None:
    made = await keyed_api.put(PATH, json={"webhook": HOOK})
    assert made.status_code == 201, made.text
    assert made.json()["request"]["webhook"]["headers"] == {"Authorization": "**********"}
    async with Redis.from_url(redis_url) as redis:
        stored = await redis.hget(keys.PRESETS + "default", "support-mail")
    assert stored
    assert b"hidden-4711" not in stored
    sent = {"preset": "support-mail", "draft": "A text."}
    refinement = (await keyed_api.post("/v1/refinements", json=sent)).json()
    assert "hidden" not in (await keyed_api.get("/v1/presets")).text
    async with Redis.from_url(redis_url) as redis:
        assert await redis.hget(keys.REQUEST + refinement["id"], "secrets")


async def test_secrets_without_a_secret_key_are_refused(api: httpx.AsyncClient) -> None:
    refused = problem(await api.put(PATH, json={"webhook": HOOK}), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/webhook/headers/Authorization"


async def test_a_tenant_has_a_hundred_presets_at_most(
    api: httpx.AsyncClient, redis_url: str
) -> None:
    await api.put(PATH, json=MAIL)
    key = keys.PRESETS + "default"
    async with Redis.from_url(redis_url) as redis:
        stored = await redis.hget(key, "support-mail")
        assert stored
        await redis.hset(key, mapping={f"p{n}": stored for n in range(MOST_PRESETS - 1)})
    problem(await api.put("/v1/presets/more", json=MAIL), 409, "conflict")
    assert (await api.put(PATH, json=MAIL)).status_code == 200


async def test_the_preset_default_is_that_of_requests_that_name_none(
    keyed_api: httpx.AsyncClient,
) -> None:
    await keyed_api.put("/v1/presets/default", json={"webhook": HOOK, "threshold": 0.6})
    await keyed_api.put(PATH, json={"threshold": 0.7})
    found = []
    for named in ({}, {"preset": "support-mail"}, {"preset": None}):
        made = await keyed_api.post("/v1/refinements", json={"draft": "A text.", **named})
        stored = (await keyed_api.get(f"{made.headers['location']}/request")).json()
        found.append((stored["preset"], stored["threshold"], bool(stored["webhook"])))
    assert found == [("default", 0.6, True), ("support-mail", 0.7, False), (None, 0.85, False)]
    line = json.dumps({"custom_id": "1", "request": {"draft": "A text."}})
    lines = {"Content-Type": "application/jsonl"}
    batch = await keyed_api.post("/v1/batches", content=line, headers=lines)
    assert batch.status_code == 202, batch.text
    await keyed_api.delete("/v1/presets/default")
    made = await keyed_api.post("/v1/refinements", json={"draft": "A text."})
    assert made.json()["threshold"] == 0.85


async def test_a_name_written_with_escapes_is_a_name(api: httpx.AsyncClient) -> None:
    await api.put(PATH, json=MAIL)
    body = rb'{"\u0070reset": "support-mail", "draft": "A text."}'
    json_type = {"Content-Type": "application/json"}
    made = await api.post("/v1/refinements", content=body, headers=json_type)
    assert made.json()["threshold"] == 0.7


async def test_a_preset_has_no_field_that_is_about_one_text(api: httpx.AsyncClient) -> None:
    given = PartialRequest(draft="A text.").fields() | {"locked": [], "feedback": "Shorter."}
    for name in OF_ONE_REQUEST:
        refused = problem(await api.put(PATH, json={name: given.get(name)}), 422, "invalid_request")
        assert refused["errors"][0]["pointer"] == f"/{name}"
