"""Two versions of the engine at once: what each plays, and what it leaves to the other."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from app.contract.events import EventType, StepCompleted
from app.contract.limits import LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.status import Status
from app.contract.versions import ENGINE_VERSION
from app.store import Claimed
from app.store.redis import keys
from tests.engine.scripted_replies import checklist
from tests.workers.refinement_harness import TENANT, RefinementHarness, ScriptedAnswers, scores
from workers.engine.moves import Ask, Move, MoveCoroutine, relayed
from workers.engine.pipeline import ENGINES_BY_VERSION, StrategyFactory, strategy_for
from workers.engine.search import Outcome
from workers.models.port import ModelCall


def changed(**fields: Any) -> StrategyFactory:
    """Return an engine that plays a request as if it had these fields."""

    def engine(request: RefinementRequest, nonce: str, **_: Any) -> MoveCoroutine[Outcome]:
        return strategy_for(request.model_copy(update=fields), nonce)

    return engine


def in_other_words(request: RefinementRequest, nonce: str, **_: Any) -> MoveCoroutine[Outcome]:
    """Play as ever, with other words in every prompt."""

    def outward(move: Move[Any]) -> Move[Any]:
        if isinstance(move, Ask):
            prompt = replace(move.prompt, system="Please. " + move.prompt.system, version=99)
            return replace(move, prompt=prompt)
        return move

    return relayed(strategy_for(request, nonce), outward)


LISTS_CRITERIA_FIRST = changed(criteria="auto")
LATER = ENGINE_VERSION + 1
OLD: Mapping[int, StrategyFactory] = ENGINES_BY_VERSION
NEW: Mapping[int, StrategyFactory] = {**ENGINES_BY_VERSION, LATER: LISTS_CRITERIA_FIRST}


def listing() -> ScriptedAnswers:
    """Models that can list criteria, too; no draft is good enough before the third."""
    scored = scores(0.3, 0.4, 0.9)

    async def answer(key: str, call: ModelCall) -> str:
        return checklist() if key == "criteria" else await scored.answer(key, call)

    return ScriptedAnswers(answer)


async def half_played(
    harness: RefinementHarness, models: ScriptedAnswers, dies_at: int = 5, **fields: Any
) -> str:
    """Return a refinement whose worker died after so many appends."""
    refinement_id = await harness.submit(**fields)
    assert await harness.play_and_die(refinement_id, models, dies_at, after=True)
    return refinement_id


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        (changed(task="Explain returns."), "iterations/1/draft"),
        (LISTS_CRITERIA_FIRST, "iterations"),
    ],
    ids=["about something else", "another path"],
)
async def test_a_journal_that_the_strategy_would_leave_ends_as_incompatible(
    harness: RefinementHarness, engine: StrategyFactory, key: str
) -> None:
    models = listing()
    refinement_id = await half_played(harness, models)
    calls = models.calls.total()
    await harness.deliver(harness.worker(models, engines={ENGINE_VERSION: engine}), refinement_id)
    ended = await harness.snapshot(refinement_id)
    assert ended.status is Status.FAILED
    assert ended.error is not None
    assert ended.error.code == "incompatible"
    assert key in ended.error.detail
    assert f"engine version {ENGINE_VERSION}" in ended.error.detail
    assert ended.result is not None, "what was judged before is the result"
    assert models.calls.total() == calls


async def test_prompts_in_other_words_keep_the_replies(harness: RefinementHarness) -> None:
    models = listing()
    refinement_id = await half_played(harness, models)
    worker = harness.worker(models, engines={ENGINE_VERSION: in_other_words})
    await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert max(models.calls.values()) == 1
    versions = [
        it.data.prompt.version
        for it in await harness.events(refinement_id)
        if isinstance(it.data, StepCompleted) and it.data.prompt
    ]
    assert versions[0] < 99
    assert versions[-1] == 99


@pytest.mark.parametrize(("version", "lists"), [(ENGINE_VERSION, False), (LATER, True)])
async def test_each_refinement_is_played_by_the_engine_it_was_made_for(
    harness: RefinementHarness, version: int, lists: bool
) -> None:
    models = listing()
    refinement_id = await harness.submit(engine_version=version)
    await harness.deliver(harness.worker(models, engines=NEW), refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert ("criteria" in models.calls) is lists


OF_A_CLAIM = {b"holder", b"claimant"}


def fields_of(redis_url: str, refinement_id: str) -> dict[bytes, bytes]:
    with Redis.from_url(redis_url) as client:
        stored: Any = client.hgetall(keys.SUMMARY + refinement_id)
        return {name: it for name, it in stored.items() if name not in OF_A_CLAIM}


def due_in_s(redis_url: str, refinement_id: str) -> float:
    with Redis.from_url(redis_url) as client:
        score: Any = client.zscore(keys.DUE, refinement_id)
        seconds, microseconds = client.time()
        return float(score) / 1000 - float(seconds) - float(microseconds) / 1e6


async def test_a_worker_that_is_too_old_puts_it_back_untouched(
    harness: RefinementHarness, redis_url: str
) -> None:
    models = listing()
    refinement_id = await harness.submit(engine_version=LATER)
    before = fields_of(redis_url, refinement_id)
    await harness.deliver(harness.worker(models, engines=OLD), refinement_id)
    assert fields_of(redis_url, refinement_id) == before
    assert 3 < due_in_s(redis_url, refinement_id) <= 5
    assert not models.calls
    assert await harness.store.administration.unplayable() == (str(LATER),)


async def test_an_upgrade_that_is_rolled_back_leaves_the_new_ones_to_new_workers(
    harness: RefinementHarness, redis_url: str
) -> None:
    models = listing()
    refinement_id = await harness.submit(engine_version=LATER)
    new, old = (harness.worker(models, engines=it) for it in (NEW, OLD))
    assert await harness.play_and_die(refinement_id, models, 5, after=True, engines=NEW)
    before = fields_of(redis_url, refinement_id)
    await harness.deliver(old, refinement_id)
    assert fields_of(redis_url, refinement_id) == before
    await harness.deliver(new, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert max(models.calls.values()) == 1
    assert "criteria" in models.calls


async def test_a_version_that_a_running_worker_plays_is_not_missing(
    harness: RefinementHarness,
) -> None:
    models = listing()
    refinement_id = await harness.submit(engine_version=LATER)
    await harness.deliver(harness.worker(models, "old", engines=OLD), refinement_id)
    await harness.worker(models, "old", engines=OLD).announce()
    assert await harness.store.administration.unplayable() == (str(LATER),)
    await harness.worker(models, "new", engines=NEW).announce()
    assert await harness.store.administration.unplayable() == ()


async def test_what_a_worker_holds_is_not_put_back_by_another(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(engine_version=LATER)
    assert await harness.worker_store.claim(refinement_id, f"{refinement_id}-1", "new")
    await harness.deliver(harness.worker(listing(), "old", engines=OLD), refinement_id)
    assert await harness.store.administration.unplayable() == ()


@pytest.mark.parametrize("unknown", ["strategy", "validator"])
async def test_a_request_that_a_later_release_accepted_is_put_back(
    harness: RefinementHarness, redis_url: str, unknown: str
) -> None:
    models = listing()
    refinement_id = await harness.submit()
    with Redis.from_url(redis_url) as client:
        stored: Any = client.hget(keys.REQUEST + refinement_id, "request")
        known = b'{"kind":"iterative"}' if unknown == "strategy" else b'"validators":[]'
        of_later = b'{"kind":"dream"}' if unknown == "strategy" else b'"validators":[{"kind":"x"}]'
        assert known in stored
        client.hset(keys.REQUEST + refinement_id, "request", stored.replace(known, of_later))
    before = fields_of(redis_url, refinement_id)
    await harness.deliver(harness.worker(models), refinement_id)
    assert fields_of(redis_url, refinement_id) == before
    kind = "dream" if unknown == "strategy" else "x"
    assert await harness.store.administration.unplayable() == (kind,)


async def test_a_reply_of_an_unknown_kind_is_put_back_and_costs_no_attempt(
    harness: RefinementHarness, redis_url: str
) -> None:
    models = listing()
    refinement_id = await half_played(harness, models)
    with Redis.from_url(redis_url) as client:
        entries: Any = client.xrange(keys.JOURNAL + refinement_id)
        client.delete(keys.JOURNAL + refinement_id)
        for number, fields in entries:
            kept = {n: it.replace(b'"kind":"text"', b'"kind":"image"') for n, it in fields.items()}
            client.xadd(keys.JOURNAL + refinement_id, kept, id=number)
    before = fields_of(redis_url, refinement_id)
    await harness.deliver(harness.worker(models, "second"), refinement_id)
    assert fields_of(redis_url, refinement_id) == before
    assert (await harness.snapshot(refinement_id)).status is Status.RUNNING


async def test_limits_that_changed_after_a_review_do_not_change_what_it_decided(
    harness: RefinementHarness,
) -> None:
    models = scores(0.9)
    refinement_id = await harness.submit(review={"when": "before_completion"}, threshold=0.8)
    await harness.deliver(harness.worker(models), refinement_id)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=1.0))
    await harness.say(refinement_id, action="approve")
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.5))
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.status, ended.outcome, ended.threshold) == (Status.SUCCEEDED, "best_effort", 0.5)


class OvertakenStore:
    """A worker's store whose refinement goes on elsewhere between its load and its claim."""

    def __init__(self, harness: RefinementHarness, models: ScriptedAnswers) -> None:
        self._harness = harness
        self._models = models

    def __getattr__(self, name: str) -> Any:
        return getattr(self._harness.worker_store, name)

    async def claim(self, refinement_id: str, *args: Any, **options: Any) -> Claimed | None:
        assert await self._harness.play_and_die(refinement_id, self._models, 4, after=True)
        return await self._harness.worker_store.claim(refinement_id, *args, **options)


async def test_what_was_journaled_between_load_and_claim_is_replayed(
    harness: RefinementHarness,
) -> None:
    models = scores(0.3, 0.4, 0.9)
    refinement_id = await harness.submit()
    store: Any = OvertakenStore(harness, models)
    await harness.deliver(harness.worker(models, "slow", store), refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert max(models.calls.values()) == 1


async def test_every_step_says_what_it_is_about(harness: RefinementHarness) -> None:
    models = listing()
    refinement_id = await harness.submit()
    await harness.deliver(harness.worker(models), refinement_id)
    events = await harness.events(refinement_id)
    steps = [it.data for it in events if it.type is EventType.STEP_COMPLETED]
    assert len({getattr(it, "about", None) for it in steps}) == len(steps) > 3
