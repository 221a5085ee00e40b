"""`GET .../steps`: what models were asked and said, in pages, for its tenant alone."""

import httpx
import pytest
from redis.asyncio import Redis

from app.contract.events import EventType, PromptRef, StepCompleted, StepFailed, TextReply
from app.store import Entry, WorkerStore
from app.store.prompts import KeptPrompt, PromptKeeper
from app.store.redis import keys
from tests.api.api_client import DRAFT, USAGE, ManualWorker, problem, submitted
from tests.store.store_harness import pack_now

PROMPT = PromptRef(name="critique", version=3)


async def played(api: httpx.AsyncClient, worker: WorkerStore) -> str:
    """A refinement with three steps; the second one has failed, and the prompts of two are kept."""
    refinement_id = await submitted(api)
    claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
    assert claimed is not None
    done = StepCompleted(
        about="0" * 16,
        key="iterations/1/critique",
        kind="ask",
        reply=TextReply(text="Good."),
        model="openai:x",
        prompt=PROMPT,
        usage=USAGE,
        seconds=0.5,
        next=(),
    )
    failed = StepFailed(
        about="0" * 16,
        key="iterations/1/critique/again/1",
        code="model_refused",
        detail="no",
        prompt=PROMPT,
        usage=USAGE,
        next=(),
    )
    other = PromptRef(name="write", version=1)
    last = done.model_copy(update={"key": "iterations/10/draft", "prompt": other})
    entries = [
        Entry(EventType.STEP_COMPLETED, done),
        Entry(EventType.STEP_FAILED, failed),
        Entry(EventType.STEP_COMPLETED, last),
    ]
    keeper, prompt = PromptKeeper(), KeptPrompt("Judge.", "A draft.", {"type": "object"})
    kept = keeper.fields(done.key, prompt) | keeper.fields(failed.key, prompt)
    await worker.journal(claimed).append(entries, prompts=kept)
    return refinement_id


async def test_a_step_has_its_question_and_its_reply(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await played(api, worker)}/steps"
    page = (await api.get(url)).json()
    assert (page["has_more"], page["next_after"], len(page["data"])) == (False, 5, 3)
    done, failed, last = page["data"]
    assert done["prompt"] == {
        "name": "critique",
        "version": 3,
        "system": "Judge.",
        "user": "A draft.",
        "schema": {"type": "object"},
    }
    assert (done["model"], done["reply"]["text"]) == ("openai:x", "Good.")
    assert (failed["prompt"], failed["reply"]) == (done["prompt"], None)
    assert (failed["kind"], failed["code"], failed["detail"]) == ("ask", "model_refused", "no")
    assert (last["prompt"]["name"], last["prompt"]["user"]) == ("write", None)


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("iterations/1/critique", 2),
        ("iterations/1", 2),
        ("iterations/1/", 2),
        ("iterations/10", 1),
        ("iteration", 0),
    ],
)
async def test_a_path_selects_a_step_and_those_below_it(
    api: httpx.AsyncClient, worker: WorkerStore, path: str, count: int
) -> None:
    url = f"/v1/refinements/{await played(api, worker)}/steps"
    assert len((await api.get(url, params={"path": path})).json()["data"]) == count


async def test_steps_come_in_pages(api: httpx.AsyncClient, worker: WorkerStore) -> None:
    url = f"/v1/refinements/{await played(api, worker)}/steps"
    first = (await api.get(url, params={"limit": 2})).json()
    assert (first["has_more"], len(first["data"])) == (True, 2)
    second = (await api.get(url, params={"limit": 2, "after": first["next_after"]})).json()
    assert (second["has_more"], len(second["data"])) == (False, 1)
    third = (await api.get(url, params={"after": second["next_after"]})).json()
    assert third == {"data": [], "has_more": False, "next_after": second["next_after"]}


async def test_steps_of_an_erased_or_unknown_refinement_are_not_found(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await played(api, worker)
    await api.delete(f"/v1/refinements/{refinement_id}")
    problem(await api.get(f"/v1/refinements/{refinement_id}/steps"), 404, "not_found")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "after=-1", "path=", "after=x"])
async def test_an_odd_parameter_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore, query: str
) -> None:
    url = f"/v1/refinements/{await played(api, worker)}/steps?{query}"
    said = problem(await api.get(url), 422, "invalid_request")
    assert said["detail"].startswith(f"query {query.partition('=')[0]}: ")


READS = ("", "/events", "/request", "/iterations", "/diff?from=0&to=1", "/steps", "/report")


async def test_every_part_reads_as_before_once_the_record_is_packed(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await submitted(api, metadata={"a": "b"})
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    await manual.judge(1, "Better.", 0.9)
    await manual.complete()
    url = f"/v1/refinements/{refinement_id}"
    before = {it: (await api.get(f"{url}{it}")).text for it in READS}
    async with Redis.from_url(redis_url) as redis:
        await pack_now(redis, worker, refinement_id)
        assert await redis.exists(keys.REQUEST + refinement_id) == 0
    assert {it: (await api.get(f"{url}{it}")).text for it in before} == before
    assert (await api.post(f"{url}/continue", json={})).status_code == 202
