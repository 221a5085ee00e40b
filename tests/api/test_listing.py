"""Lists by what no index tells: filters hold for all pages, not for one."""

from urllib.parse import quote

import httpx
import pytest

from app.store import WorkerStore
from app.store.refinements import EXAMINATIONS, EXAMINED
from tests.api.api_client import ManualWorker, ended, submitted


async def listed(api: httpx.AsyncClient, query: str, limit: int = 2) -> list[str]:
    """Return the ids of all pages."""
    found: list[str] = []
    path = f"/v1/refinements?limit={limit}&{query}"
    while path:
        page = await api.get(path)
        assert page.status_code == 200, page.text
        assert len(page.json()["data"]) <= limit
        found += [it["id"] for it in page.json()["data"]]
        path = page.headers.get("link", "").partition(">")[0].removeprefix("<")
    return found


async def judged(api: httpx.AsyncClient, worker: WorkerStore, score: float) -> str:
    """Return the id of a running refinement with a judged draft, which cost 0.25 dollars."""
    refinement_id = await submitted(api)
    await (await ManualWorker.claim(worker, refinement_id)).judge(0, "First.", score)
    return refinement_id


async def test_filters_hold_for_all_pages(api: httpx.AsyncClient, worker: WorkerStore) -> None:
    queued = await submitted(api, strategy={"kind": "critique"})
    low, middle, high = [await judged(api, worker, score) for score in (0.2, 0.5, 0.9)]
    done = await ended(api, worker)
    newest_first = [done, high, middle, low, queued]
    expected = {
        "status=running": [high, middle, low],
        "status=running&status=queued": [high, middle, low, queued],
        "outcome=passed": [done],
        "outcome=best_effort&outcome=failed": [],
        "strategy=critique": [queued],
        "strategy=critique&strategy=iterative": newest_first,
        "min_score=0.5": [high, middle],
        "max_score=0.5": [done, middle, low],
        "min_score=0.3&max_score=0.6&status=running&status=succeeded": [middle],
        "min_cost_usd=0.1": [done, high, middle, low],
        "max_cost_usd=0.1": [queued],
    }
    for query, ids in expected.items():
        assert await listed(api, query) == ids, query


async def test_continuations_are_found_by_their_parent(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent, other = [await ended(api, worker) for _ in range(2)]
    children = [
        (await api.post(f"/v1/refinements/{it}/continue", json={})).json()["id"]
        for it in (parent, parent, other)
    ]
    assert await listed(api, f"parent={parent}", limit=1) == [children[1], children[0]]
    assert await listed(api, f"parent={children[0]}") == []


async def test_bounds_of_time_include_what_was_submitted_then(api: httpx.AsyncClient) -> None:
    ids = [await submitted(api) for _ in range(3)]
    snapshots = [(await api.get(f"/v1/refinements/{it}")).json() for it in ids]
    created_at = quote(snapshots[1]["created_at"])
    assert await listed(api, f"submitted_from={created_at}") == [ids[2], ids[1]]
    assert await listed(api, f"submitted_to={created_at}") == [ids[1], ids[0]]
    assert await listed(api, "submitted_to=2020-01-01T00:00:00Z") == []
    assert await listed(api, "submitted_from=2020-01-01T00:00:00%2B02:00") == ids[::-1]
    always = "submitted_from=0001-01-01T00:00:00%2B14:00&submitted_to=9999-12-31T23:59:59-14:00"
    assert await listed(api, always) == ids[::-1]
    assert (await api.get(f"/v1/pairs?{always}")).status_code == 200


async def test_a_search_that_finds_little_ends_with_a_short_page(api: httpx.AsyncClient) -> None:
    first = await submitted(api, strategy={"kind": "critique"})
    for _ in range(EXAMINED):
        await submitted(api)
    assert await listed(api, "strategy=critique", limit=100) == [first]
    assert EXAMINED * EXAMINATIONS == 2_000


async def test_a_list_without_results_has_no_texts(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await ended(api, worker)
    (bare,) = (await api.get("/v1/refinements?result=false")).json()["data"]
    (whole,) = (await api.get("/v1/refinements")).json()["data"]
    assert bare == whole | {"result": None}


@pytest.mark.parametrize(
    "query",
    [
        "min_score=2",
        "max_cost_usd=-1",
        "submitted_from=2026-01-01",
        "submitted_to=1700000000",
        "min_score=nan",
    ],
)
async def test_bounds_that_are_none_are_refused(api: httpx.AsyncClient, query: str) -> None:
    response = await api.get(f"/v1/refinements?{query}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == f"/{query.partition('=')[0]}"


async def test_a_page_is_the_same_as_gzip_for_who_takes_that(api: httpx.AsyncClient) -> None:
    for _ in range(4):
        await submitted(api)
    plain = {"Accept-Encoding": "identity"}
    for limit, encoding in ((2, None), (3, "gzip")):
        path = f"/v1/refinements?limit={limit}"
        packed, page = await api.get(path), await api.get(path, headers=plain)
        assert packed.headers.get("content-encoding") == encoding
        assert packed.content == page.content
        assert "content-encoding" not in page.headers
        for answer in (packed, page):
            assert (answer.headers["vary"], "link" in answer.headers) == ("Accept-Encoding", True)
