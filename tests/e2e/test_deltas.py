"""Texts are seen while models write them, by those who ask for it, and change nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.drafts import EXACT_MARK
from app.store.redis.keys import WATCHED
from benchmarks.model_replies import (
    AskedPrompt,
    ModelServerReply,
    between_marks,
    chat,
    improving,
    streamed,
)
from tests.e2e.running_service import RunningService, frozen, running_service
from tests.e2e.scripted_models import answering, key_of
from tests.models.calls import RecordingBehaviour
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

DRAFT_1, REVISION = "iterations/1/draft", "iterations/2/revise"


@dataclass(frozen=True)
class Sent:
    """One message of a stream; deltas have no id."""

    id: str | None
    type: str
    data: dict[str, Any]


@contextmanager
def slow_words(service: RunningService, every_s: float = 0.01) -> Iterator[None]:
    """Have the models write a word every so many seconds."""
    service.models.stream_every_s = every_s
    try:
        yield
    finally:
        service.models.stream_every_s = 0.0


@asynccontextmanager
async def watched_from_its_start(
    service: RunningService, **fields: Any
) -> AsyncIterator[tuple[str, AsyncIterator[Sent]]]:
    """Submit a refinement whose worker knows of the watcher before it begins."""
    async with AsyncExitStack() as stack, asyncio.timeout(TIMEOUT_S):
        redis = await stack.enter_async_context(
            Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S)
        )
        while not (await redis.pubsub_numsub(WATCHED))[0][1]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        announced = await stack.enter_async_context(redis.pubsub())
        await announced.subscribe(WATCHED)
        with frozen(service.processes[1]):
            refinement_id = await service.submit(**fields)
            stream = await stack.enter_async_context(watching(service, refinement_id))
            async for message in announced.listen():
                if message["type"] == "message" and refinement_id.encode() in message["data"]:
                    break
        yield refinement_id, stream


async def watched_until(
    service: RunningService, is_enough: Callable[[list[Sent]], bool]
) -> tuple[str, list[Sent]]:
    """Return a refinement and its stream once enough was seen of a text in the making.

    A worker that has to wait for the processor reads much of a text at once.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with slow_words(service):
                async with watched_from_its_start(service, max_iterations=2) as (made, stream):
                    sent = [it async for it in stream]
            if is_enough(sent):
                return made, sent


@asynccontextmanager
async def watching(
    service: RunningService, refinement_id: str, **query: str
) -> AsyncIterator[AsyncIterator[Sent]]:
    """Open the stream with deltas."""
    url = f"/v1/refinements/{refinement_id}/events"
    asked = {"deltas": "true", **query}
    async with service.client.stream("GET", url, params=asked, timeout=TIMEOUT_S) as response:
        assert response.status_code == 200
        yield messages(response.aiter_lines())


async def messages(lines: AsyncIterator[str]) -> AsyncIterator[Sent]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif not line and "data" in fields:
            yield Sent(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}


def written(sent: list[Sent], key: str) -> list[str]:
    """The text of a step after each piece, by the rule of the protocol."""
    texts, text = [], ""
    for it in sent:
        if it.type == "step.delta" and it.data["key"] == key:
            assert it.data["offset"] <= len(text)
            text = text[: it.data["offset"]] + it.data["text"]
            texts.append(text)
    return texts


def replied(sent: list[Sent], key: str) -> str:
    """The reply in the journal, without the marks around its text."""
    done = [it.data["data"] for it in sent if it.type == "step.completed"]
    reply = str(next(it["reply"]["text"] for it in done if it["key"] == key))
    return EXACT_MARK.sub("", reply)


async def test_a_watcher_sees_the_draft_grow_and_the_journal_as_ever(
    service: RunningService,
) -> None:
    service.models.behaviour = behaviour = RecordingBehaviour(improving)
    refinement_id, sent = await watched_until(
        service, lambda it: len(set(written(it, REVISION))) > 3
    )
    texts = written(sent, REVISION)
    assert all(replied(sent, REVISION).startswith(text) for text in texts)
    assert all(len(one) < len(other) for one, other in pairwise(texts))
    journal = [it for it in sent if it.type != "step.delta"]
    assert [it.data for it in journal] == await service.events(refinement_id)
    assert [it.id for it in journal] == [str(n + 1) for n in range(len(journal))]
    assert {it.id for it in sent if it.type == "step.delta"} == {None}
    ended = [it.data["data"]["key"] if it.type == "step.completed" else "" for it in sent]
    last_delta = max(n for n, it in enumerate(sent) if it.type == "step.delta")
    assert ended.index(REVISION) > last_delta
    are_streamed = {key_of(it): "stream" in it.json for it in behaviour.asked}
    assert are_streamed[REVISION]
    assert not are_streamed["iterations/2/critique"]


async def test_without_such_a_watcher_no_reply_is_streamed(service: RunningService) -> None:
    service.models.behaviour = behaviour = RecordingBehaviour(improving)
    refinement_id = await service.submit(max_iterations=2)
    await service.events(refinement_id)
    assert not any("stream" in it.json for it in behaviour.asked)


async def test_who_comes_late_gets_the_text_from_its_beginning(service: RunningService) -> None:
    long = chat(" ".join(map(str, range(100_000))))  # it goes on whenever the other one comes
    service.models.behaviour = answering(
        lambda key, asked: between_marks(long, asked) if key == REVISION else None
    )
    with slow_words(service, 0.03):
        async with watched_from_its_start(service, max_iterations=2) as (refinement_id, first):
            sent = []
            async for it in first:
                sent.append(it)
                if len(written(sent, REVISION)) == 3:
                    break
            last = [it.id for it in sent if it.id][-1]
            async with watching(service, refinement_id, after=last) as second:
                later = await anext(second)
    assert (later.type, later.data["key"], later.data["offset"]) == ("step.delta", REVISION, 0)
    assert later.data["text"].startswith(written(sent, REVISION)[-1])


async def test_a_call_that_is_repeated_begins_its_text_anew(service: RunningService) -> None:
    tries: set[str] = set()

    def cut_once(asked: AskedPrompt) -> ModelServerReply:
        key = asked.header("Idempotency-Key") or ""
        if key_of(asked) != REVISION or key in tries:
            return improving(asked)
        tries.add(key)
        pieces = streamed(improving(asked), asked).pieces[:80]
        return ModelServerReply(
            body=b"".join(pieces), headers=(("Content-Type", "text/event-stream"),), pieces=pieces
        )

    def beginnings(sent: list[Sent]) -> int:
        deltas = [it.data for it in sent if it.type == "step.delta"]
        return [(it["key"], it["offset"]) for it in deltas].count((REVISION, 0))

    service.models.behaviour = cut_once
    _, sent = await watched_until(service, lambda it: beginnings(it) > 1)
    assert beginnings(sent) == 2
    assert replied(sent, REVISION).startswith(written(sent, REVISION)[-1])


async def test_a_text_is_shown_anew_when_its_worker_was_killed(tmp_path: Path) -> None:
    """The next claim is played in a child process, since the first one ended without a step."""
    text = chat(" ".join(map(str, range(1_000))))
    async with running_service(
        tmp_path, lambda asked: between_marks(text, asked), model_timeout_s=5
    ) as service:
        with slow_words(service, 0.02):
            async with watched_from_its_start(service) as (_, stream):
                first = await _delta(stream)
                service.processes[1].kill()
                service.worker()
                async for it in stream:
                    if it.type == "refinement.resumed":
                        break
                again = await _delta(stream)
    assert (first.data["key"], first.data["offset"]) == (DRAFT_1, 0)
    assert (again.data["key"], again.data["offset"]) == (DRAFT_1, 0)


async def _delta(stream: AsyncIterator[Sent]) -> Sent:
    async for it in stream:
        if it.type == "step.delta":
            return it
    raise AssertionError("no text was shown")


async def test_a_stream_resumed_in_the_middle_has_every_event_once(
    service: RunningService,
) -> None:
    with slow_words(service, 0.005):
        refinement_id = await service.submit(max_iterations=3)
        seen: list[str] = []
        while not seen or "refinement.completed" not in seen[-1]:
            last = seen[-1].partition(" ")[0] if seen else "0"
            async with watching(service, refinement_id, after=last) as stream:
                seen += [f"{it.id} {it.type}" async for it in _some(stream) if it.id]
    assert [int(it.partition(" ")[0]) for it in seen] == list(range(1, len(seen) + 1))


async def _some(stream: AsyncIterator[Sent]) -> AsyncIterator[Sent]:
    """The first ten messages, or what comes within a moment."""
    for _ in range(10):
        try:
            async with asyncio.timeout(TIMEOUT_S):
                yield await anext(stream)
        except StopAsyncIteration:
            return


async def test_a_deltas_parameter_that_is_no_boolean_is_refused(service: RunningService) -> None:
    refinement_id = await service.submit(max_iterations=1)
    response = await service.client.get(f"/v1/refinements/{refinement_id}/events?deltas=maybe")
    assert response.status_code == 422
