"""A strategy of a package that makes a mistake: its refinement fails, and the worker goes on."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from app.contract.events import StepCompleted
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason
from app.contract.versions import ENGINE_VERSION
from app.store import Claimed
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    NONCE,
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
)
from workers.engine.asking import ask, question, text_in
from workers.engine.drafting import improve, propose
from workers.engine.judging import judge
from workers.engine.moves import MoveCoroutine, play_parts, within
from workers.engine.pipeline import StrategyFactory, StrategyFunction, task_of, whole
from workers.engine.prompts import Task, Write
from workers.engine.replies.reader import ReplyReader
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search
from workers.play.driver import Rehearsal
from workers.play.journal import replay_of

EXITS = [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]


def played_by(function: StrategyFunction) -> Mapping[int, StrategyFactory]:
    """Return engines in which this function plays every request."""

    def factory(request: RefinementRequest, nonce: str, **_: Any) -> MoveCoroutine[Outcome]:
        return whole(request, task_of(request, nonce), request.limits(), function, ReviewPolicy())

    return {ENGINE_VERSION: factory}


def asking(*paths: str, read: Any = text_in) -> StrategyFunction:
    """Return a strategy that asks for a text at each of these paths, and then improves a draft."""

    async def strategy(task: Task, limits: Any, _: Any) -> Outcome:
        with Search.of(task, limits) as search:
            for path in paths:
                await ask(question(path, "generator", Write(task)), read, "empty_text")
            await improve(task, search)
        return search.outcome()

    return strategy


def noting() -> ScriptedAnswers:
    """Return models that answer any question of a strategy, and pass the first draft."""
    drafts = scores(0.9)

    async def answer(key: str, call: Any) -> str:
        return await drafts.answer(key, call) if key.startswith("iterations/") else f"re {key}"

    return ScriptedAnswers(answer)


async def ended(harness: RefinementHarness, function: StrategyFunction, **fields: Any) -> Snapshot:
    """Play a refinement by a strategy; return how it stands after one claim."""
    refinement_id = await harness.submit(**fields)
    worker = harness.worker(noting(), engines=played_by(function))
    async with asyncio.timeout(TIMEOUT_S):
        await harness.deliver(worker, refinement_id)
    return await harness.snapshot(refinement_id)


def require_internal_error(snapshot: Snapshot, log: str, said: str) -> None:
    """Require that it failed, told clients nothing of the inside, and told the log everything."""
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.code) == (Status.FAILED, "internal_error")
    assert said in log
    assert said not in snapshot.error.detail
    assert "Traceback" in log


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("calls", [0, 1])
async def test_what_it_raises_is_an_internal_error_whatever_it_is(
    harness: RefinementHarness,
    caplog: pytest.LogCaptureFixture,
    kind: type[BaseException],
    calls: int,
) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Outcome:
        for path in ("facts",)[:calls]:
            await ask(question(path, "generator", Write(task)), text_in, "empty_text")
        raise kind("stray")

    require_internal_error(await ended(harness, strategy), caplog.text, f"{kind.__name__}('stray')")
    assert (await ended(harness, asking("facts"))).outcome == "passed"


@pytest.mark.parametrize("kind", EXITS)
async def test_what_reads_its_replies_may_raise_it_too(
    harness: RefinementHarness, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    def read(reply: ReplyReader) -> str:
        raise kind("stray")

    snapshot = await ended(harness, asking("facts", read=read))
    require_internal_error(snapshot, caplog.text, f"{kind.__name__}('stray')")


async def test_a_cancel_remains_a_cancel_though_it_cannot_be_closed(
    harness: RefinementHarness, caplog: pytest.LogCaptureFixture
) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Outcome:
        try:
            return await asking("facts")(task, limits, plan)
        finally:
            raise SystemExit(3)

    models, begun, _ = pausing_at("facts", noting())
    refinement_id = await harness.submit()
    worker = harness.worker(models, engines=played_by(strategy))
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await begun.wait()
    await harness.store.cancel(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    assert (await harness.snapshot(refinement_id)).status is Status.CANCELED
    assert "while it was closed" in caplog.text


class CancelledJournals:
    """A worker's store in which every append is a cancelled future, though nobody cancels."""

    def __init__(self, harness: RefinementHarness) -> None:
        self._store = harness.worker_store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Any:
        return _CancelledJournal()


class _CancelledJournal:
    id = "ref"

    async def append(self, *_: Any, **__: Any) -> Any:
        raise asyncio.CancelledError


async def test_a_claim_that_cancels_itself_counts_as_an_attempt(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    store: Any = CancelledJournals(harness)
    worker = harness.worker(noting(), store=store)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await harness.deliver(worker, refinement_id)
    failed = await harness.snapshot(refinement_id)
    assert failed.error is not None
    assert failed.error.code == "poisoned"


async def side_by_side(task: Task, limits: Any, _: Any) -> Outcome:
    """Ask for four texts side by side at one path."""
    with Search.of(task, limits) as search:
        questions = [question("facts", "generator", Write(task)) for _ in range(4)]
        await play_parts("all", [ask(each, text_in, "empty_text") for each in questions])
        await improve(task, search)
    return search.outcome()


@pytest.mark.parametrize("function", [asking("facts", "risks", "facts"), side_by_side])
async def test_a_path_that_is_used_twice_is_an_error_that_names_it(
    harness: RefinementHarness, caplog: pytest.LogCaptureFixture, function: StrategyFunction
) -> None:
    snapshot = await ended(harness, function)
    require_internal_error(snapshot, caplog.text, "the path 'facts' is used twice")
    events = [event.data for event in await harness.events(snapshot.id)]
    asked = [data.key for data in events if isinstance(data, StepCompleted)]
    assert asked == (["facts"] if function is side_by_side else ["facts", "risks"])


async def test_a_path_that_is_used_twice_in_a_replay_is_the_same_error(
    harness: RefinementHarness,
) -> None:
    (engine,) = played_by(asking("facts", "facts")).values()
    request = RefinementRequest(task="Explain refunds.")
    snapshot = await ended(harness, asking("facts"))
    recorded = replay_of(await harness.events(snapshot.id))
    with pytest.raises(ValueError, match="the path 'facts' is used twice"):
        await Rehearsal(recorded).play(engine(request, NONCE))


async def test_a_path_is_used_once_by_each_worker(harness: RefinementHarness) -> None:
    refinement_id, models = await harness.submit(), noting()
    engines = played_by(asking("facts", "risks"))
    assert await harness.play_and_die(refinement_id, models, 3, after=True, engines=engines)
    await harness.deliver(harness.worker(models, "second", engines=engines), refinement_id)
    assert (await harness.snapshot(refinement_id)).outcome == "passed"
    assert models.calls["facts"] == 1


@pytest.mark.parametrize("returned", [None, 42])
async def test_what_it_returns_must_be_an_outcome(
    harness: RefinementHarness, caplog: pytest.LogCaptureFixture, returned: Any
) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Any:
        return returned

    said = f"a strategy must return an Outcome: iterative returned {type(returned).__name__}"
    require_internal_error(await ended(harness, strategy), caplog.text, said)


async def test_a_role_that_it_asks_must_have_a_model(
    harness: RefinementHarness, caplog: pytest.LogCaptureFixture
) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Any:
        role: Any = "wizard"
        await ask(question("facts", role, Write(task)), text_in, "empty_text")

    said = "facts asks the role 'wizard'; those with a model are: generator, critic"
    require_internal_error(await ended(harness, strategy), caplog.text, said)


async def test_without_a_judged_draft_it_says_that_the_strategy_ended(
    harness: RefinementHarness,
) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Outcome:
        return Search.of(task, limits).outcome()

    snapshot = await ended(harness, strategy)
    assert snapshot.error is not None
    assert snapshot.error.code == "nothing_judged"
    assert snapshot.error.detail == "stopped before a draft was judged (its strategy ended)"


async def test_with_a_draft_and_no_reason_to_end_it_is_complete(harness: RefinementHarness) -> None:
    async def strategy(task: Task, limits: Any, plan: Any) -> Outcome:
        with Search.of(task, limits) as search:
            draft = await within(search.upcoming, propose(task, search))
            await search.judged(await within(search.upcoming, judge(task, draft)))
        return search.outcome()

    assert (await ended(harness, strategy, threshold=0.95)).stop_reason is StopReason.COMPLETED
