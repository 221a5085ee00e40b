"""Whatever is played, and wherever a deadline or a finish strikes: it ends as what it is."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from app.contract.status import StopReason
from app.store import WorkerStore
from tests.workers.honest_endings import require_an_honest_end
from tests.workers.judging_cases import EVERY, EVERY_KIND, distance
from tests.workers.refinement_harness import (
    TENANT,
    ActingStore,
    RefinementHarness,
    ScriptedAnswers,
)
from tests.workers.replay_cases import ReplayCase
from tests.workers.test_kills import submitted
from workers.models.port import ModelCall

REJECT = {"action": "reject"}


def overdue(harness: RefinementHarness, models: ScriptedAnswers, at: int) -> ScriptedAnswers:
    """Return the same models with one call, counted from 1, during which the deadline passes."""

    async def answer(key: str, call: ModelCall) -> str:
        if hung.calls.total() == at:
            passing.append(asyncio.create_task(harness.pass_deadline(call.key.partition("/")[0])))
            await asyncio.Event().wait()
        return await models.answer(key, call)

    passing: list[asyncio.Task[None]] = []
    hung = ScriptedAnswers(answer, outside=models.outside)
    return hung


async def played(
    harness: RefinementHarness,
    kind: str,
    case: ReplayCase,
    models: ScriptedAnswers,
    store: WorkerStore | None = None,
) -> str:
    """Play a case to its end and return its id; unexpected reviews are rejected."""
    words = defaultdict(lambda: REJECT, case.words)
    refinement_id = await submitted(harness, kind, case)
    await harness.play_on(harness.worker(models, store=store), refinement_id, words)
    return refinement_id


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_deadline_in_the_middle_of_any_call(harness: RefinementHarness, kind: str) -> None:
    case = EVERY[kind]
    models = case.models()
    undisturbed = await harness.snapshot(await played(harness, kind, case, models))
    calls = models.calls.total()
    patient = replace(case, request={**case.request, "stop": {"tolerance": 0}})
    for at in {1, (calls + 1) // 2, calls}:
        models = overdue(harness, case.models(), at)
        refinement_id = await played(harness, kind, patient, models)
        ended, events = await harness.snapshot(refinement_id), await harness.events(refinement_id)
        require_an_honest_end(ended, events, StopReason.DEADLINE, undisturbed)
        assert models.aborted


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_finish_before_any_append(harness: RefinementHarness, kind: str) -> None:
    whole = await played(harness, kind, EVERY[kind], EVERY[kind].models())
    undisturbed = await harness.snapshot(whole)
    at, is_said = 0, True
    while is_said:
        at += distance(kind)
        store: Any = ActingStore(harness, at, partial(harness.store.finish, TENANT))
        refinement_id = await played(harness, kind, EVERY[kind], EVERY[kind].models(), store)
        ended, events = await harness.snapshot(refinement_id), await harness.events(refinement_id)
        require_an_honest_end(ended, events, StopReason.FINISHED_EARLY, undisturbed)
        assert ended.result is not None
        is_said = store.left <= 0
    assert at > 2
