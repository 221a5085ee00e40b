"""What the API's tests share: a worker driven by the test, clients, and a way to read a stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx

from app.contract.drafts import sha256_of
from app.contract.events import (
    EventType,
    IterationCompleted,
    PromptRef,
    StepCompleted,
    StepFailed,
    StepStarted,
    TextReply,
)
from app.contract.judgement import CriterionScore, QualityEstimate, Usage
from app.contract.reviews import Paused, ReviewPlan
from app.contract.snapshot import Best, Failure, IterationScore, Result
from app.contract.statistics import UNKNOWN_MODEL, ModelUse
from app.contract.status import Status, StopReason
from app.store import Entry, Fields, Journal, State, WorkerStore
from tests.waiting import TIMEOUT_S

DRAFT = "First line.\nSecond line.\n"
REQUEST: dict[str, Any] = {"task": "Say it plainly.", "draft": DRAFT}
EACH = ReviewPlan(when="each_iteration")
USAGE = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.25, seconds=0.5)


@dataclass(frozen=True)
class ServerSent:
    """One event of a stream, as it came."""

    id: int
    type: str
    event: dict[str, Any]


class ManualWorker:
    """A worker that does what a test tells it."""

    def __init__(self, journal: Journal, state: State) -> None:
        self._journal = journal
        self._state = state
        self._scores: tuple[IterationScore, ...] = ()
        self._best: Best | None = None
        self._draft = ""

    @classmethod
    async def claim(cls, worker: WorkerStore, refinement_id: str) -> Self:
        claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
        assert claimed is not None
        return cls(worker.journal(claimed), claimed.state)

    async def start(self, *keys: str) -> None:
        """Say what is under way: one event."""
        entry = Entry(EventType.STEP_STARTED, StepStarted(next=keys))
        self._state = await self._journal.append([entry], Fields(phase=keys))

    async def judge(
        self,
        number: int,
        draft: str,
        score: float,
        search: str = "",
        estimate: QualityEstimate | None = None,
    ) -> None:
        """Write a draft (iteration 0: the client's) and judge it: three events, or two."""
        path = f"{search}iterations/{number}"
        wrote = [] if number == 0 else [self._step(f"{path}/revise", f"```\n{draft}\n```")]
        self._scores = (*self._scores, IterationScore(iteration=number, path=path, score=score))
        if self._best is None or score > (self._best.score or 0):
            self._best = Best(iteration=number, path=path, score=score, sha256=sha256_of(draft))
            self._draft = draft
        judged = Entry(
            EventType.ITERATION_COMPLETED,
            self._judged(number, path, draft, score).model_copy(update={"estimate": estimate}),
        )
        self._state = await self._journal.append(
            [*wrote, self._step(f"{path}/critique", "{}"), judged], self._fields(number)
        )

    async def pause(self, number: int = 0, plan: ReviewPlan = EACH) -> None:
        """Ask reviewers about the best draft: one event, and the claim is given up."""
        assert self._best is not None
        asked = Paused(
            **self._best.model_dump(),
            key=f"iterations/{number}/review",
            when="each_iteration",
            timeout_s=3_600,
            on_timeout="finish",
            question="Is this draft good enough?",
            reviewers=plan.reviewers,
            approvals_needed=plan.approvals_needed,
        )
        self._state = await self._journal.append(
            [Entry(EventType.PAUSED, asked)], Fields(), to=Status.PAUSED
        )

    async def complete(self, *, passed: bool = True) -> None:
        """End as succeeded: one event."""
        reason = StopReason.THRESHOLD_MET if passed else StopReason.MAX_ITERATIONS
        await self._journal.append(
            [Entry(EventType.COMPLETED)],
            Fields(stop_reason=reason, best_passed=passed),
            to=Status.SUCCEEDED,
        )

    async def fail(self, key: str) -> None:
        """Fail at one step: two events."""
        code, detail = "unreadable_critique", "it is empty"
        step = StepFailed(about="0" * 16, key=key, code=code, detail=detail, usage=USAGE, next=())
        error = Failure(code=code, detail=detail, steps=(key,))
        await self._journal.append(
            [Entry(EventType.STEP_FAILED, step), Entry(EventType.FAILED)],
            Fields(stop_reason=StopReason.ERROR, error=error),
            to=Status.FAILED,
        )

    async def stop(self) -> None:
        """End what is `canceling`: one event."""
        await self._journal.append(
            [Entry(EventType.CANCELED)],
            Fields(stop_reason=StopReason.CANCELED),
            to=Status.CANCELED,
        )

    def _step(self, key: str, text: str) -> Entry:
        prompt = PromptRef(name="p", version=1)
        reply = TextReply(text=text)
        done = StepCompleted(
            about="0" * 16,
            key=key,
            kind="ask",
            reply=reply,
            prompt=prompt,
            usage=USAGE,
            seconds=0.5,
            next=(),
        )
        return Entry(EventType.STEP_COMPLETED, done)

    def _judged(self, number: int, path: str, draft: str, score: float) -> IterationCompleted:
        assert self._best is not None
        return IterationCompleted(
            iteration=number,
            path=path,
            sha256=sha256_of(draft),
            parent=f"{path.removesuffix(str(number))}{number - 1}" if number else None,
            score=score,
            scores=(CriterionScore(criterion="quality", score=score),),
            passed=score >= 0.85,
            findings=(),
            strengths=("short",),
            weaknesses=(),
            suggestions=(),
            asked=("be plain",) if number else (),
            best=self._best,
            limits=self._state.limits,
        )

    def _fields(self, number: int) -> Fields:
        best = self._best
        assert best is not None
        result = Result(
            draft=self._draft,
            iteration=best.iteration,
            path=best.path,
            score=best.score,
            sha256=best.sha256,
        )
        return Fields(
            iteration=number,
            best=best,
            best_passed=False,
            scores=self._scores,
            result=result,
            usage=USAGE,
            used={UNKNOWN_MODEL: ModelUse.of(USAGE)},
        )


async def submitted(api: httpx.AsyncClient, **fields: Any) -> str:
    """Submit and return the id."""
    response = await api.post("/v1/refinements", json={**REQUEST, **fields})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


async def ended(api: httpx.AsyncClient, worker: WorkerStore, drafts: int = 2, **fields: Any) -> str:
    """Submit and let a worker judge that many drafts and succeed; return the id."""
    refinement_id = await submitted(api, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    for number in range(drafts):
        await manual.judge(number, DRAFT if number == 0 else f"Draft {number}.", number / 10)
    await manual.complete()
    return refinement_id


async def paused(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    """Submit, let a worker judge the draft and ask a reviewer about it; return the id."""
    refinement_id = await submitted(api, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    await manual.pause(plan=ReviewPlan.model_validate(fields.get("review") or EACH))
    return refinement_id


async def first_listed(api: httpx.AsyncClient, **query: str) -> str:
    """Return the id of a refinement as soon as there is one."""
    async with asyncio.timeout(TIMEOUT_S):
        while not (listed := (await api.get("/v1/refinements", params=query)).json()["data"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return str(listed[0]["id"])


@asynccontextmanager
async def watching(
    api: httpx.AsyncClient, refinement_id: str, **headers: str
) -> AsyncIterator[AsyncIterator[ServerSent]]:
    """Open the event stream of a refinement."""
    url = f"/v1/refinements/{refinement_id}/events"
    async with api.stream("GET", url, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield server_sent(response)


async def server_sent(response: httpx.Response) -> AsyncIterator[ServerSent]:
    """Read events as the HTML standard says; comments are left out."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif not line and "data" in fields:
            yield ServerSent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem, which has to be this one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert (found["status"], found["code"]) == (status, code), found
    assert {"type", "title", "detail", "instance"} <= found.keys()
    return found
