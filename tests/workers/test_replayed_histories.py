"""Commands, budgets and kills in one history: whatever it was, a replay goes on from it."""

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from app.contract.errors import Conflict
from app.contract.limits import LimitsChange
from app.contract.status import Status
from app.store import Claimed, Journal, State
from tests.workers.judging_cases import EVERY, EVERY_KIND
from tests.workers.refinement_harness import (
    TENANT,
    Killed,
    RefinementHarness,
    ScriptedAnswers,
    verdict,
)
from tests.workers.test_kills import submitted
from workers.engine.prompts import Judge
from workers.models.port import ModelCall

SEEDS = 3
LIVES = 4
WORDS = (
    {"action": "revise", "feedback": "Name the deadline."},
    {"action": "rate", "score": 0.35},
    {"action": "approve"},
    {"action": "reject"},
)
CHANGES: tuple[Mapping[str, Any], ...] = (
    {"max_iterations": 1},
    {"max_iterations": 6},
    {"threshold": 0.1},
    {"threshold": 1.0},
    {"max_tokens": 900},
    {"max_seconds": 0.001},
    {"max_seconds": 600},
)


class FaultyStore:
    """A worker's store that dies, or before which a client speaks, at appends that chance picks."""

    def __init__(self, harness: RefinementHarness, chance: Random, deadly: bool) -> None:
        self.harness = harness
        self.chance = chance
        self.deadly = deadly
        self.nonce = ""
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.harness.worker_store, name)

    def journal(self, claimed: Claimed) -> Any:
        self.nonce = claimed.nonce
        return _FaultyJournal(self.harness.worker_store.journal(claimed), self)


class _FaultyJournal:
    def __init__(self, journal: Journal, store: FaultyStore) -> None:
        self._journal = journal
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        store = self._store
        if store.is_dead:
            raise Killed
        drawn = store.chance.random()
        if drawn < 0.15:
            await commanded(store.harness, self._journal.id, store.chance)
        store.is_dead = store.deadly and store.chance.random() < 0.15
        if store.is_dead and drawn < 0.5:
            raise Killed
        state = await self._journal.append(*args, **kwargs)
        if store.is_dead:
            raise Killed
        return state


async def commanded(harness: RefinementHarness, refinement_id: str, chance: Random) -> None:
    """Finish it, or change its limits."""
    try:
        if chance.random() < 0.3:
            await harness.store.finish(TENANT, refinement_id)
        else:
            change = LimitsChange.model_validate(chance.choice(CHANGES))
            await harness.store.change(TENANT, refinement_id, change)
    except Conflict:
        pass  # it had ended


def unending(models: ScriptedAnswers) -> ScriptedAnswers:
    """Return the same models, which also answer what their script does not expect."""

    async def answer(key: str, call: ModelCall) -> str:
        try:
            return await models.answer(key, call)
        except (LookupError, ValueError):
            judges = isinstance(call.prompt_request, Judge)
            return verdict(0.42, call) if judges else f"Something about {key}."

    return ScriptedAnswers(answer, outside=models.outside)


async def lived(harness: RefinementHarness, kind: str, seed: int) -> str:
    """Play a case through several lives of workers, and return its id."""
    chance = Random(f"{kind} {seed}")
    case = EVERY[kind]
    models = unending(case.models())
    stop = {"max_tokens": chance.choice((600, 1_500, 4_000))} if chance.random() < 0.3 else {}
    request = {**case.request, "stop": {"tolerance": 0, **stop}}
    refinement_id = await submitted(harness, kind, type(case)(request, case.models, case.words))
    words = defaultdict(lambda: chance.choice(WORDS), case.words)
    for life in range(LIVES + 1):
        store: Any = FaultyStore(harness, chance, deadly=life < LIVES)
        worker = harness.worker(models, f"{seed} {life}", store)
        try:
            await harness.play_on(worker, refinement_id, words)
        except Killed:
            await harness.worker_store.hand_back(refinement_id, store.nonce)
        else:
            break
    return refinement_id


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_no_history_of_this_release_is_incompatible_with_it(
    harness: RefinementHarness, kind: str
) -> None:
    for seed in range(SEEDS):
        ended = await harness.snapshot(await lived(harness, kind, seed))
        assert ended.status in {Status.SUCCEEDED, Status.FAILED}
        code = ended.error and ended.error.code
        assert code in {None, "nothing_judged"}, f"seed {seed}: {ended.error}"
