"""What calls share is marked for Anthropic's cache, if it is long enough."""

from dataclasses import replace
from typing import Any

import pytest

from app.contract.judgement import Critique
from app.contract.requests import ContextDocument
from benchmarks.model_replies import AskedPrompt
from tests.models.calls import TASK, RecordingBehaviour, call, in_turn, serving
from tests.models.test_anthropic import message, speaking
from workers.engine.prompts import Judge, Revise, Write
from workers.models.port import ModelCall

MARK = {"type": "ephemeral"}


def sharing(characters: int, model: str = "claude-x") -> ModelCall:
    """A call whose prompt begins with that much text that others have too."""
    asked = call(model=model)
    shared = "Context. " * (characters // 9)
    prompt = replace(asked.prompt, user=shared + "Write it.", shared=len(shared))
    return replace(asked, prompt=prompt)


async def sent(asked: ModelCall) -> AskedPrompt:
    behaviour = RecordingBehaviour(in_turn(message("done")))
    async with serving(behaviour, speaking=speaking) as (model, _):
        await model.complete(asked)
    return behaviour.asked[0]


async def content(asked: ModelCall) -> Any:
    return (await sent(asked)).json["messages"][0]["content"]


async def test_a_long_beginning_is_a_marked_block_of_its_own() -> None:
    asked = sharing(9_000)
    shared, rest = await content(asked)
    assert shared["cache_control"] == MARK
    assert shared["text"] == asked.prompt.user[: asked.prompt.shared]
    assert rest == {"type": "text", "text": "Write it."}


@pytest.mark.parametrize(
    ("model", "characters", "is_marked"),
    [
        ("claude-opus-5-5", 1_800, True),
        ("claude-sonnet-5", 1_800, False),
        ("claude-sonnet-5", 3_600, True),
        ("claude-haiku-4-5", 9_000, False),
        ("claude-haiku-4-5", 18_000, True),
        ("claude-of-tomorrow", 1_800, False),
        ("claude-of-tomorrow", 3_600, True),
    ],
)
async def test_what_a_model_would_not_cache_is_not_marked(
    model: str, characters: int, is_marked: bool
) -> None:
    asked = sharing(characters, model)
    found = await content(asked)
    assert (found != asked.prompt.user) == is_marked


async def test_a_prompt_that_shares_nothing_is_one_text() -> None:
    asked = replace(sharing(9_000), prompt=replace(sharing(9_000).prompt, shared=0))
    assert await content(asked) == asked.prompt.user


async def test_a_prompt_that_is_shared_whole_is_one_marked_block() -> None:
    asked = sharing(9_000)
    asked = replace(asked, prompt=replace(asked.prompt, user=asked.prompt.user[:-9]))
    (block,) = await content(asked)
    assert block["cache_control"] == MARK


async def test_what_was_written_to_the_cache_and_read_from_it_is_counted_and_priced() -> None:
    usage = {
        "input_tokens": 100,
        "cache_creation_input_tokens": 2_000,
        "cache_read_input_tokens": 5_000,
        "output_tokens": 50,
    }
    reply = in_turn(message("x", usage=usage))
    async with serving(reply, speaking=speaking, provider="anthropic") as (model, _):
        counted = (await model.complete(call(model="claude-haiku-4-5"))).usage
    assert (counted.input_tokens, counted.cached_tokens) == (7_100, 5_000)
    dollars = (100 * 1 + 2_000 * 1.25 + 5_000 * 0.1 + 50 * 5) / 1_000_000
    assert counted.cost_usd == pytest.approx(dollars)


async def test_the_marks_of_a_text_leave_what_calls_share_as_it_is() -> None:
    document = ContextDocument(name="policy", text="Refunds take 14 days. " * 400)
    task = replace(TASK, context=(document,), nonce="482913")
    texts = [Revise(task, it, (), Critique(scores=()), ()) for it in ("One draft.", "Another.")]
    asked = [call(it, model="claude-sonnet-5") for it in (Write(task), *texts, Judge(task, "One."))]
    behaviour = RecordingBehaviour(in_turn(message("done")))
    async with serving(behaviour, speaking=speaking) as (model, _):
        for it in asked:
            await model.complete(it)
    sent = [it.json["messages"][0]["content"] for it in behaviour.asked]
    assert len({it.json["system"] for it in behaviour.asked}) == 1
    assert len({shared["text"] for shared, _ in sent}) == 1
    assert all(shared["cache_control"] == MARK for shared, _ in sent)
    marks = [it.prompt.mark for it in asked]
    assert len(set(marks)) == 4
    assert marks[-1] is None
    for mark, (_, own) in zip(marks[:-1], sent, strict=False):
        assert f"</text-{mark}>" in own["text"].splitlines()[-1]
