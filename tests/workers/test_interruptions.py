"""Whatever is played, and wherever a deadline or a finish strikes: it ends as what it is."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from app.contract.status import StopReason
from app.store import Claimed, Journal, State, WorkerStore
from tests.workers.honest_endings import require_an_honest_end
from tests.workers.judging_cases import EVERY
from tests.workers.refinement_harness import TENANT, RefinementHarness, ScriptedAnswers
from tests.workers.replay_cases import ReplayCase
from tests.workers.test_kills import submitted
from workers.models.port import ModelCall

REJECT = {"action": "reject"}


def hanging(models: ScriptedAnswers, at: int) -> ScriptedAnswers:
    """Return the same models with one call, counted from 1, that never answers."""

    async def answer(key: str, call: ModelCall) -> str:
        if hung.calls.total() == at:
            await asyncio.Event().wait()
        return await models.answer(key, call)

    hung = ScriptedAnswers(answer, outside=models.outside)
    return hung


async def played(
    stage: RefinementHarness,
    kind: str,
    scene: ReplayCase,
    models: ScriptedAnswers,
    store: WorkerStore | None = None,
) -> str:
    """Play a scene to its end and return its id; whoever is asked unexpectedly says reject."""
    words = defaultdict(lambda: REJECT, scene.words)
    refinement_id = await submitted(stage, kind, scene)
    await stage.play_on(stage.worker(models, store=store), refinement_id, words)
    return refinement_id


@pytest.mark.parametrize("kind", EVERY)
async def test_a_deadline_in_the_middle_of_any_call(stage: RefinementHarness, kind: str) -> None:
    scene = EVERY[kind]
    models = scene.models()
    undisturbed = await stage.snapshot(await played(stage, kind, scene, models))
    calls = models.calls.total()
    stop = {"patience": 50, "max_seconds": 0.3}
    hurried = replace(scene, request={**scene.request, "stop": stop})
    for at in {1, (calls + 1) // 2, calls}:
        models = hanging(scene.models(), at)
        refinement_id = await played(stage, kind, hurried, models)
        ended, events = await stage.snapshot(refinement_id), await stage.events(refinement_id)
        require_an_honest_end(ended, events, StopReason.DEADLINE, undisturbed)
        assert models.aborted


@pytest.mark.parametrize("kind", EVERY)
async def test_a_finish_before_any_append(stage: RefinementHarness, kind: str) -> None:
    whole = await played(stage, kind, EVERY[kind], EVERY[kind].models())
    undisturbed = await stage.snapshot(whole)
    at, is_said = 0, True
    while is_said:
        at += 1
        store: Any = FinishingStore(stage, at)
        refinement_id = await played(stage, kind, EVERY[kind], EVERY[kind].models(), store)
        ended, events = await stage.snapshot(refinement_id), await stage.events(refinement_id)
        require_an_honest_end(ended, events, StopReason.FINISHED_EARLY, undisturbed)
        assert ended.result is not None
        is_said = store.left <= 0
    assert at > 2


class FinishingStore:
    """A worker's store whose client says finish right before its n-th append."""

    def __init__(self, stage: RefinementHarness, at: int) -> None:
        self.left = at
        self.stage = stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage.worker_store, name)

    def journal(self, claimed: Claimed) -> Any:
        return _FinishingJournal(self.stage.worker_store.journal(claimed), self)


class _FinishingJournal:
    def __init__(self, journal: Journal, store: FinishingStore) -> None:
        self._journal = journal
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        self._store.left -= 1
        if self._store.left == 0:
            await self._store.stage.store.finish(TENANT, self._journal.id)
        return await self._journal.append(*args, **kwargs)
