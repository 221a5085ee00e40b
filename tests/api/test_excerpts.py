"""`excerpts=true`: of long texts the beginning, of all else what there is without it."""

from typing import Any

import httpx
import pytest

from app.api.dependencies import EXCERPT_CHARACTERS
from app.store import WorkerStore
from tests.api.api_client import ManualWorker, ended, server_sent, submitted

LONG = "😀 a long text. " * 200
LISTS = ("/events", "/iterations", "/steps")


async def long_one(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    """Submit a long draft, and let a worker make another long one of it; return the id."""
    refinement_id = await submitted(api, draft=LONG, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, LONG, 0.4)
    await manual.judge(1, f"Better. {LONG}", 0.9)
    await manual.complete()
    return f"/v1/refinements/{refinement_id}"


def cut(value: Any) -> Any:
    """Return JSON with excerpts of its texts."""
    if isinstance(value, str):
        return value[:EXCERPT_CHARACTERS]
    if isinstance(value, dict):
        return {name: cut(it) for name, it in value.items()}
    return [cut(it) for it in value] if isinstance(value, list) else value


@pytest.mark.parametrize("part", LISTS)
async def test_a_list_has_excerpts_of_long_texts_and_everything_else(
    api: httpx.AsyncClient, worker: WorkerStore, part: str
) -> None:
    url = await long_one(api, worker) + part
    json = {"Accept": "application/json"}
    whole = await api.get(url, headers=json)
    excerpts = await api.get(url, params={"excerpts": "true"}, headers=json)
    assert excerpts.json() == cut(whole.json()) != whole.json()
    assert excerpts.headers["content-type"] == whole.headers["content-type"]
    assert len(excerpts.content) < len(whole.content)


async def test_a_stream_has_excerpts_too(api: httpx.AsyncClient, worker: WorkerStore) -> None:
    url = await long_one(api, worker)
    async with api.stream("GET", f"{url}/events") as response:
        whole = [it async for it in server_sent(response)]
    async with api.stream("GET", f"{url}/events?excerpts=true") as response:
        excerpts = [it async for it in server_sent(response)]
    assert [(it.id, it.type) for it in excerpts] == [(it.id, it.type) for it in whole]
    assert [it.event for it in excerpts] == [cut(it.event) for it in whole]


@pytest.mark.parametrize("part", LISTS)
async def test_short_texts_are_whole(
    api: httpx.AsyncClient, worker: WorkerStore, part: str
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}{part}"
    json = {"Accept": "application/json"}
    whole = await api.get(url, headers=json)
    assert (await api.get(f"{url}?excerpts=true", headers=json)).json() == whole.json()


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_an_excerpt_is_not_the_delivery_of_a_result_that_is_not_stored(
    api: httpx.AsyncClient, worker: WorkerStore, media_type: str
) -> None:
    url = await long_one(api, worker, store=False)
    sent = await api.get(f"{url}/events?excerpts=true", headers={"Accept": media_type})
    assert "refinement.completed" in sent.text
    assert (await api.get(url)).json()["result"]["draft"] == f"Better. {LONG}"
