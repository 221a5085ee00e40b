"""Watching: from the start, from the middle, to the end."""

import asyncio
import random

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import (
    DRAFT,
    ManualWorker,
    ServerSent,
    ended,
    problem,
    server_sent,
    submitted,
    watching,
)

PAGES = {"Accept": "application/json"}


async def test_a_stream_replays_then_goes_on_live_and_ends_with_the_snapshot(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    async with watching(api, refinement_id) as events:
        replayed = [await anext(events), await anext(events)]
        await manual.judge(0, DRAFT, 0.9)
        await manual.complete()
        live = [event async for event in events]
    seen = [*replayed, *live]
    assert [event.id for event in seen] == list(range(1, 6))
    assert [event.type for event in seen] == [
        "refinement.queued",
        "refinement.started",
        "step.completed",
        "iteration.completed",
        "refinement.completed",
    ]
    assert all((it.event["event"], it.event["type"]) == (it.id, it.type) for it in seen)
    assert seen[-1].event["data"] == (await api.get(f"/v1/refinements/{refinement_id}")).json()


async def test_a_stream_cut_anywhere_and_resumed_has_no_gap_and_no_duplicate(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    chance = random.Random(7)

    async def work() -> None:
        manual = await ManualWorker.claim(worker, refinement_id)
        for number in range(40):
            await manual.judge(number, DRAFT if number == 0 else f"Draft {number}.", 0.5)
            await asyncio.sleep(0.005)
        await manual.complete()

    async def watch() -> list[ServerSent]:
        seen: list[ServerSent] = []
        while not seen or seen[-1].type != "refinement.completed":
            last = {"Last-Event-ID": str(seen[-1].id)} if seen else {}
            async with watching(api, refinement_id, **last) as events:
                for _ in range(chance.randint(1, 9)):
                    if (event := await anext(events, None)) is None:
                        break
                    seen.append(event)
        return seen

    watchers = [asyncio.create_task(watch()) for _ in range(10)]
    await work()
    all_seen = await asyncio.gather(*watchers)
    numbers = list(range(1, all_seen[0][-1].id + 1))
    assert all([event.id for event in seen] == numbers for seen in all_seen)


@pytest.mark.parametrize(
    ("headers", "query"), [({"Last-Event-ID": "4"}, "?after=1"), ({}, "?after=4")]
)
async def test_the_header_goes_before_the_parameter(
    api: httpx.AsyncClient, worker: WorkerStore, headers: dict[str, str], query: str
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}/events{query}"
    async with api.stream("GET", url, headers=headers) as response:
        first = await anext(server_sent(response))
    assert first.id == 5


async def test_a_reconnect_that_has_seen_everything_is_a_204(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{(refinement_id := await ended(api, worker))}"
    last = (await api.get(url)).json()["last_event"]
    response = await api.get(f"{url}/events", headers={"Last-Event-ID": str(last)})
    assert (response.status_code, response.content) == (204, b"")
    async with watching(api, refinement_id, **{"Last-Event-ID": str(last - 1)}) as events:
        assert [event.id async for event in events] == [last]


@pytest.mark.parametrize(
    "odd", ["", "-1", "1.5", "abc", "9" * 30, "999999", "1, 2", "\u00b2", "0x1"]
)
async def test_an_odd_last_event_id_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore, odd: str
) -> None:
    for refinement_id in (await submitted(api), await ended(api, worker)):
        response = await api.get(
            f"/v1/refinements/{refinement_id}/events",
            headers=[(b"Last-Event-ID", odd.encode("latin-1"))],
        )
        problem(response, 400, "malformed_header")


async def test_a_page_behind_the_last_event_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}/events"
    last = (await api.get(url, headers=PAGES)).json()["next_after"]
    nothing = (await api.get(f"{url}?after={last}", headers=PAGES)).json()
    assert (nothing["data"], nothing["next_after"]) == ([], last)
    refused = await api.get(f"{url}?after={last + 1}", headers=PAGES)
    assert f"the last event is {last}" in problem(refused, 400, "malformed_header")["detail"]


async def test_the_same_events_come_in_pages_of_json(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    url: str | None = f"/v1/refinements/{refinement_id}/events?limit=3"
    pages = []
    while url:
        response = await api.get(url, headers={"Accept": "application/json"})
        pages.append(response.json())
        url = response.links.get("next", {}).get("url")
    async with watching(api, refinement_id) as events:
        streamed = [event.event async for event in events]
    assert [event for page in pages for event in page["data"]] == streamed
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert pages[-1]["next_after"] == len(streamed)


async def test_events_in_another_form_are_refused(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}/events"
    problem(await api.get(url, headers={"Accept": "text/html"}), 406, "not_acceptable")


async def test_a_browser_that_accepts_anything_gets_a_stream(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    async with watching(api, await ended(api, worker), Accept="text/html, */*;q=0.8") as events:
        assert (await anext(events)).id == 1


async def test_every_block_of_a_stream_has_an_event_and_the_first_says_when_to_connect_again(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    path = f"/v1/refinements/{await ended(api, worker)}/events"
    *blocks, end = (await api.get(path)).text.split("\n\n")
    assert blocks[0].startswith("retry: 1000\nid: 1\nevent: ")
    assert all(it.startswith("id: ") and "\ndata: {" in it for it in blocks[1:])
    assert end == ""
