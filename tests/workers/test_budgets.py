"""Whatever is played under whatever budget: it is kept, and its end is told as it was."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from app.contract.budget import first_judgement, tokens_in
from app.contract.events import Event, StepCompleted, StepStarted
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Snapshot
from app.contract.status import StopReason
from tests.workers.honest_endings import require_an_honest_end
from tests.workers.judging_cases import EVERY, EVERY_KIND
from tests.workers.refinement_harness import TENANT, TEST_MODEL, RefinementHarness, ScriptedAnswers
from tests.workers.replay_cases import ReplayCase
from tests.workers.test_kills import record, submitted
from workers.models.port import ModelCall, ModelReply

BUDGETS = 4
UNLIMITED = ModelChoice(model="scripted:test")


class CostlyAnswers(ScriptedAnswers):
    """Models whose every call consumes all that can be set aside for it."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        reply = await super().complete(name, call)
        asked = tokens_in(call.prompt.system) + tokens_in(call.prompt.user)
        usage = Usage(calls=1, input_tokens=asked, output_tokens=call.max_output_tokens)
        return replace(reply, usage=usage)


def costly(case: ReplayCase, max_tokens: int | None = None) -> ReplayCase:
    """Return the case with a budget and models like that; other reviews are rejected."""

    def models() -> ScriptedAnswers:
        given = case.models()
        return CostlyAnswers(given.answer, outside=given.outside)

    stop = {"tolerance": 0, "max_tokens": max_tokens}
    words = defaultdict(lambda: {"action": "reject"}, case.words)
    return ReplayCase({**case.request, "stop": stop}, models, words)


async def played(harness: RefinementHarness, kind: str, case: ReplayCase) -> str:
    """Play a case to its end and return its id."""
    refinement_id = await submitted(harness, kind, case)
    await harness.play_on(harness.worker(case.models()), refinement_id, case.words)
    return refinement_id


async def killed(harness: RefinementHarness, kind: str, case: ReplayCase, dies_at: int) -> str:
    """Play a case with a worker that is killed right after an append, and another that goes on."""
    models, refinement_id = case.models(), await submitted(harness, kind, case)
    await harness.play_and_die(refinement_id, models, dies_at, case.words, after=True)
    await harness.play_on(harness.worker(models, "second"), refinement_id, case.words)
    return refinement_id


def spent(snapshot: Snapshot) -> int:
    return snapshot.usage.input_tokens + snapshot.usage.output_tokens


def least_for(request: RefinementRequest, choice: ModelChoice = TEST_MODEL) -> int:
    """Return the least budget that is admitted."""
    seats = ("generator", "critic", *request.critics.seats())
    models = dict.fromkeys(seats, choice)
    return sum(call.tokens for call in first_judgement(request, models))


def budgets(least: int, most: int) -> Iterator[int]:
    """Give what a change may lower a budget to, what is admitted, and what is enough."""
    yield least
    for part in range(1, BUDGETS + 1):
        yield part * most // BUDGETS
        yield least + part * most // BUDGETS


VARIES = "nested, every part side by side", "a report on topics"
"""Cases in which a claim after a kill has set aside another share of the budget."""


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_budget_is_kept_and_what_it_bought_is_told(
    harness: RefinementHarness, kind: str
) -> None:
    refinement_id = await played(harness, kind, costly(EVERY[kind]))
    undisturbed = await harness.snapshot(refinement_id)
    steps = [getattr(it.data, "key", "") for it in await harness.events(refinement_id)]
    asks_again = any("/again/" in key for key in steps)  # for which no budget may be left
    least = least_for(await harness.store.request(TENANT, refinement_id))
    for budget in budgets(least, spent(undisturbed)):
        case = costly(EVERY[kind], budget)
        refinement_id = await played(harness, kind, case)
        ended, events = await harness.snapshot(refinement_id), await harness.events(refinement_id)
        dies_at = Random(f"{kind} {budget}").randrange(1, ended.last_event)
        again = await killed(harness, kind, case, dies_at)
        for each in (refinement_id, again):
            ended = await harness.snapshot(each)
            assert spent(ended) <= budget
            assert ended.result is not None or budget < least
            journal = await harness.events(each)
            require_an_honest_end(ended, journal, StopReason.BUDGET_EXHAUSTED, undisturbed)
            assert asks_again or written(journal) <= {it.path for it in ended.scores}
        if kind not in VARIES and not is_side_by_side(events):
            assert await record(harness, again) == await record(harness, refinement_id)


@pytest.mark.parametrize("extra", [0, 3_000, 20_000, 60_000])
@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_budget_is_kept_while_limits_follow_the_text(
    harness: RefinementHarness, kind: str, extra: int
) -> None:
    given = EVERY[kind].request.get("strategy", {})
    fields = {**EVERY[kind].request, "strategy": {"kind": kind, **given}}
    asked = RefinementRequest.model_validate({"task": "Explain refunds.", **fields})
    budget = least_for(asked, UNLIMITED) + extra
    case = costly(EVERY[kind], budget)
    refinement_id = await harness.submit(UNLIMITED, **{**fields, "stop": case.request["stop"]})
    await harness.play_on(harness.worker(case.models()), refinement_id, case.words)
    ended, journal = await harness.snapshot(refinement_id), await harness.events(refinement_id)
    assert spent(ended) <= budget
    assert ended.result is not None
    assert written(journal) <= {it.path for it in ended.scores}


def written(events: Sequence[Event]) -> set[str]:
    """Return the iterations whose text was written: enough was left to judge them."""
    keys = [it.data.key for it in events if isinstance(it.data, StepCompleted)]
    drafts = [key for key in keys if key.endswith(("/draft", "/revise"))]
    return {key.rpartition("/")[0] for key in drafts if "/sections/" not in key}


def is_side_by_side(events: Sequence[Event]) -> bool:
    """Return whether calls were under way at once: which of them is refused goes by who is first,
    and that is not the same again after a kill.
    """
    steps = [it.data for it in events if isinstance(it.data, StepCompleted | StepStarted)]
    return any(len(it.next) > 1 for it in steps)
