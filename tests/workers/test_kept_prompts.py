"""What a model was asked and what it said is kept with the refinement, and erased with it."""

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import Step, TextReply
from app.service.iterations import ended_steps, replies_of, step_of
from app.store.prompts import MASK
from app.store.redis import keys
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    scores,
    verdict,
)
from tests.workers.scripted_models import improving
from workers.engine.prompts import Judge
from workers.models.port import ModelCall, ModelRefused
from workers.play.refinements import Refinements

DOCUMENT = " ".join(f"rule{number}" for number in range(400))


async def steps_of(harness: RefinementHarness, refinement_id: str) -> list[Step]:
    """All steps, as the API shows them."""
    journal = await harness.events(refinement_id)
    ended = list(ended_steps(journal))
    asked = [it.name for it in ended]
    prompts = await harness.store.prompts(TENANT, refinement_id, asked, replies_of(ended))
    return [step_of(it, prompts) for it in ended]


async def test_every_prompt_is_kept_as_it_was_sent_but_for_its_nonce(
    harness: RefinementHarness,
) -> None:
    sent: dict[str, ModelCall] = {}
    models = scores(0.4, 0.6, 0.9)

    async def answer(key: str, call: ModelCall) -> str:
        sent[key] = call
        return await models.answer(key, call)

    document = {"name": "policy.md", "text": DOCUMENT}
    refinement_id = await harness.submit(context=[document], max_iterations=3)
    await harness.play(refinement_id, ScriptedAnswers(answer))
    steps = await steps_of(harness, refinement_id)
    assert [step.key for step in steps] == list(sent)
    for step in steps:
        prompt, nonce = sent[step.key].prompt, sent[step.key].prompt_request.task.nonce
        assert nonce
        masked = prompt.system.replace(nonce, MASK), prompt.user.replace(nonce, MASK)
        assert MASK in prompt.user.replace(nonce, MASK)
        assert step.prompt is not None
        assert isinstance(step.reply, TextReply)
        assert (step.prompt.system, step.prompt.user) == masked
        assert step.prompt.schema_ == prompt.schema


async def test_a_failed_step_and_one_that_a_retry_voided_are_listed(
    harness: RefinementHarness,
) -> None:
    models, refused = scores(0.9), ["iterations/1/critique"]

    async def answer(key: str, call: ModelCall) -> str:
        if key in refused:
            raise ModelRefused("no")
        return await models.answer(key.partition(";")[0], call)

    refinement_id = await harness.submit()
    await harness.play(refinement_id, ScriptedAnswers(answer))
    refused.clear()
    await harness.store.retry(TENANT, refinement_id)
    await harness.play(refinement_id, ScriptedAnswers(answer), "second")
    steps = await steps_of(harness, refinement_id)
    assert [(it.key, it.code, it.is_voided) for it in steps] == [
        ("iterations/1/draft", None, False),
        ("iterations/1/critique", "model_refused", True),
        ("iterations/1/critique", None, False),
    ]
    assert all(it.prompt and it.prompt.user for it in steps)


async def test_prompts_survive_every_kill(harness: RefinementHarness) -> None:
    for after in (False, True):
        for dies_at in range(1, 99):
            refinement_id = await harness.submit(max_iterations=2)
            models = improving(0.1, 0.2)
            if not await harness.play_and_die(refinement_id, models, dies_at, after=after):
                break
            await harness.play(refinement_id, models, f"{dies_at}{after}")
            steps = await steps_of(harness, refinement_id)
            assert len(steps) == 4
            assert all(it.prompt and it.prompt.user for it in steps)
        assert dies_at > 3


async def test_erasing_leaves_nothing(harness: RefinementHarness, redis_url: str) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, scores(0.9))
    async with Redis.from_url(redis_url) as redis:
        assert await redis.exists(keys.PROMPTS + refinement_id)
        await harness.store.erase(TENANT, refinement_id)
        assert not await redis.exists(keys.PROMPTS + refinement_id)
    with pytest.raises(RefinementNotFound):
        await harness.store.prompts(TENANT, refinement_id, ["iterations/1/draft"], {})


async def test_prompts_are_not_kept_where_they_are_not_wanted(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    worker = Refinements(harness.worker_store, scores(0.9), "first", keeps_prompts=False)
    await worker.refine(f"{refinement_id}-1", refinement_id)
    async with Redis.from_url(redis_url) as redis:
        assert not await redis.exists(keys.PROMPTS + refinement_id)
    for step in await steps_of(harness, refinement_id):
        assert step.prompt
        assert (step.prompt.name != "", step.prompt.system, step.prompt.user) == (True, None, None)


async def test_another_tenant_does_not_see_them(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, scores(0.9))
    with pytest.raises(RefinementNotFound):
        await harness.store.prompts("other", refinement_id, ["iterations/1/draft"], {})


PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
PROSE = " ".join(page.read_text() for page in PAGES).split()


async def bytes_per_refinement(redis_url: str, harness: RefinementHarness, keeps: bool) -> int:
    """What a refinement of 300 words, 1,500 words of context and 3 iterations takes in Redis."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.5, call)
        number = int(key.split("/")[1])
        return " ".join(PROSE[number * 300 : (number + 1) * 300])

    context = [{"name": "policy.md", "text": " ".join(PROSE[2_000:3_500])}]
    refinement_id = await harness.submit(context=context, max_iterations=3)
    worker = Refinements(
        harness.worker_store, ScriptedAnswers(answer), f"{keeps}", keeps_prompts=keeps
    )
    await worker.refine(f"{refinement_id}-1", refinement_id)
    async with Redis.from_url(redis_url) as redis:
        found: Any = [key async for key in redis.scan_iter(f"*{refinement_id}")]
        return sum([int(await redis.memory_usage(key, samples=0) or 0) for key in found])


async def test_prompts_add_less_than_40_percent(harness: RefinementHarness, redis_url: str) -> None:
    without = await bytes_per_refinement(redis_url, harness, keeps=False)
    kept = await bytes_per_refinement(redis_url, harness, keeps=True)
    assert without < kept < 1.4 * without, f"{without} bytes, and {kept} with prompts"
