"""How long replies may be: as the text needs it, and as the budget pays for it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.contract.budget import OutputBounds, output_bounds, tokens_in
from app.contract.judgement import Critique, Usage
from app.contract.models import ModelChoice
from app.contract.providers import cost_usd
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers
from workers.engine.asking import question
from workers.engine.moves import Ask
from workers.engine.pipeline import task_of
from workers.engine.prompts import JsonDocument, Judge, PromptRequest, Revise, Task, Write
from workers.models.port import ModelCall, ModelReply, ModelWaits
from workers.play.limits import BudgetGuard, reply_size

GPT = "openai:gpt-5-mini"
CHOICE = ModelChoice(model=GPT)
CRITERIA = [{"name": name} for name in ("accuracy", "clarity", "tone")]
DRAFT = " ".join(f"word{number}" for number in range(300))
Usages = Mapping[str, tuple[int, int]]
"""Output tokens and those of thinking, by the name of the prompt."""


class Charging(ScriptedAnswers):
    """Models that write and judge, and charge for it; `used` says how much they write.

    Without an entry a reply is as long as its limit allows.
    """

    def __init__(self, used: Usages) -> None:
        super().__init__(self._said)
        self.used = used
        self.limits: list[tuple[str, int]] = []

    async def _said(self, key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            names = [it.name for it in call.prompt_request.task.criteria]
            return json.dumps({"scores": [{"criterion": it, "score": 0.5} for it in names]})
        return f"{DRAFT} {key}."

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        reply = await super().complete(name, call)
        self.limits.append((call.prompt.name, call.max_output_tokens))
        asked = tokens_in(call.prompt.system) + tokens_in(call.prompt.user)
        most = call.max_output_tokens
        output, thinking = self.used.get(call.prompt.name, (most, 0))
        assert output <= most
        usage = Usage(
            calls=1,
            input_tokens=asked,
            output_tokens=output,
            thinking_tokens=thinking,
            cost_usd=cost_usd(name, asked, output),
        )
        return replace(reply, usage=usage)


ORDINARY: Usages = {"write": (800, 350), "revise": (800, 350), "critique": (900, 350)}
"""What a small thinking model takes for a text of 300 words and three criteria."""


async def played(
    harness: RefinementHarness, models: Charging, choice: ModelChoice = CHOICE, **fields: Any
) -> Any:
    refinement_id = await harness.submit(
        choice, criteria=CRITERIA, threshold=1, **{"max_iterations": 50, **fields}
    )
    return await harness.play(refinement_id, models)


async def test_a_budget_buys_what_it_pays_for_and_does_not_stop_at_a_tenth(
    harness: RefinementHarness,
) -> None:
    stop = {"max_cost_usd": 0.02, "tolerance": 0, "max_similarity": 1}
    ended = await played(harness, Charging(ORDINARY), stop=stop)
    assert ended.stop_reason == StopReason.BUDGET_EXHAUSTED
    assert 0.015 < ended.usage.cost_usd <= 0.02
    assert ended.iteration >= 4


class LosesReplies(Charging):
    """The same, whose reply to the first revision is lost on the way once."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        if call.prompt.name == "revise" and not call.tries:
            lost = Usage(calls=1, cost_usd=None)
            raise ModelWaits(name, "unreachable", 0.01, "reset the connection", usage=lost)
        return await super().complete(name, call)


async def test_a_lost_reply_does_not_end_a_refinement_with_a_budget(
    harness: RefinementHarness,
) -> None:
    stop = {"max_cost_usd": 0.02, "tolerance": 0, "max_similarity": 1}
    ended = await played(harness, LosesReplies(ORDINARY), stop=stop)
    assert ended.stop_reason == StopReason.BUDGET_EXHAUSTED
    assert ended.iteration >= 4
    assert ended.usage.cost_usd is None, "what was lost on the way may have cost something"


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "iterative"},
        {"kind": "best_of_n", "n": 3},
        {"kind": "multi_pass", "passes": [{"focus": "facts"}, {"focus": "style"}]},
    ],
    ids=lambda it: it["kind"],
)
@pytest.mark.parametrize("max_cost_usd", [0.02, 0.05])
async def test_no_call_exceeds_the_budget_although_every_reply_is_as_long_as_it_may(
    harness: RefinementHarness, strategy: dict[str, Any], max_cost_usd: float
) -> None:
    stop = {"max_cost_usd": max_cost_usd, "tolerance": 0, "max_similarity": 1}
    models = Charging({})
    ended = await played(harness, models, strategy=strategy, stop=stop)
    assert ended.usage.cost_usd <= max_cost_usd
    assert ended.usage.cost_usd > max_cost_usd / 2
    assert ended.result is not None


async def test_drafts_written_side_by_side_get_equal_shares(harness: RefinementHarness) -> None:
    models = Charging(ORDINARY)
    stop = {"max_cost_usd": 0.05}
    strategy = {"kind": "best_of_n", "n": 4}
    ended = await played(harness, models, strategy=strategy, stop=stop, max_iterations=4)
    limits = [most for name, most in models.limits if name == "write"]
    assert len(limits) == 4
    assert max(limits) - min(limits) < 10
    assert len(ended.scores) == 4


async def test_without_a_budget_the_limit_follows_the_text(harness: RefinementHarness) -> None:
    models = Charging({**ORDINARY, "revise": (20_000, 0)})
    draft = "A sentence of the draft. " * 1_000
    plain = ModelChoice(model="openai:gpt-4.1-nano")
    await played(harness, models, plain, draft=draft, max_iterations=2)
    (_, first), (_, revision), *_ = models.limits
    assert first < 5_000
    assert revision > 2 * tokens_in(draft)


def asking(prompt_request: PromptRequest) -> Ask:
    return question("iterations/1/revise", "generator", prompt_request)


def request(**fields: Any) -> RefinementRequest:
    return RefinementRequest.model_validate({"task": "Explain refunds.", **fields})


def revision(draft: str) -> Revise:
    return Revise(Task("Explain.", draft, (), "482913"), draft, (), Critique(scores=()), ())


def limit_of(ask: Ask, choice: ModelChoice, unknown: int = 16_384) -> int | None:
    models = {"generator": choice, "critic": choice}
    guard = BudgetGuard(request(), models, unknown)
    granted = guard.reserve(ask, Usage(), request().limits())
    assert granted
    return granted.max_output_tokens


def test_a_reply_that_was_cut_off_gets_twice_the_room_up_to_what_the_model_gives() -> None:
    ask = asking(revision("word " * 2_000))
    usual = limit_of(ask, CHOICE)
    assert usual
    assert limit_of(replace(ask, room=1), CHOICE) == 2 * usual
    assert limit_of(replace(ask, room=6), CHOICE) == 128_000
    chosen = ModelChoice(model=GPT, max_output_tokens=900)
    assert limit_of(replace(ask, room=6), chosen) == 900


def test_a_model_that_is_unknown_gives_what_the_settings_say() -> None:
    ask = asking(revision("word " * 20_000))
    assert limit_of(ask, ModelChoice(model="local:llama")) == 16_384
    assert limit_of(ask, ModelChoice(model="local:llama"), unknown=50_000) == 50_000


def test_a_cut_off_reply_of_an_unknown_model_gets_more_room_than_the_settings_say() -> None:
    ask, local = asking(revision("word " * 20_000)), ModelChoice(model="local:llama")
    assert limit_of(replace(ask, room=1), local) == 2 * 16_384
    assert limit_of(replace(ask, room=2), local, unknown=20_000) == 80_000
    verdict = asking(Judge(Task("Explain.", None, (), "482913"), "word " * 20_000))
    assert limit_of(replace(verdict, room=2), local) == 16_384
    chosen = ModelChoice(model="local:llama", max_output_tokens=900)
    assert limit_of(replace(ask, room=2), chosen) == 900


def test_the_schema_of_a_draft_counts_as_input() -> None:
    described = {"type": "string", "description": "word " * 3_000}
    schema = {
        "type": "object",
        "properties": {"note": described},
        "required": ["note"],
        "additionalProperties": False,
    }
    checks = [{"kind": "json_schema", "schema": schema}]
    asked = request(validators=checks, stop={"max_tokens": 20_000})
    document = task_of(asked, "482913")
    prompt_request = Write(document)
    bare = Write(replace(document, whole=JsonDocument({"type": "object"})))
    models = {"generator": CHOICE, "critic": CHOICE}
    limits = [
        granted.max_output_tokens or 0
        for it in (bare, prompt_request)
        if (granted := BudgetGuard(asked, models).reserve(asking(it), Usage(), asked.limits()))
    ]
    assert limits[1] < limits[0] - 1_000


def test_the_context_window_limits_what_is_left_for_the_output() -> None:
    size = reply_size(revision("word " * 80_000), request())
    choice = ModelChoice(model="anthropic:claude-haiku-4-5")
    assert output_bounds(choice, size, input_tokens=50_000).most == 64_000
    assert output_bounds(choice, size, input_tokens=150_000).most == 50_000


@pytest.mark.parametrize(
    ("validator", "expected"),
    [
        ({"max_words": 120}, 180),
        ({"min_words": 1_000}, 1_800),
        ({"max_characters": 10_000, "max_words": 100}, 150),
        ({"max_sentences": 5}, 200),
    ],
)
def test_a_first_draft_is_as_long_as_validators_ask(
    validator: dict[str, int], expected: int
) -> None:
    asked = request(validators=[{"kind": "length", **validator}])
    size = reply_size(Write(Task("Explain.", None, (), "482913")), asked)
    assert size.expected == expected
    assert size.most > 2 * expected


def test_a_model_that_thinks_gets_room_for_it_and_one_that_does_not_gets_none() -> None:
    size = reply_size(Write(Task("Explain.", None, (), "482913")), request())
    assert bounds("openai:gpt-4o") == OutputBounds(size.expected, size.most)
    assert bounds(GPT).most == size.most + 25_000
    assert bounds(GPT, reasoning_effort="none").expected == size.expected
    assert bounds(GPT, reasoning_effort="high").most > bounds(GPT).most
    assert bounds("anthropic:claude-haiku-4-5").most == size.most
    assert bounds("anthropic:claude-haiku-4-5", reasoning_effort="low").most > size.most


def bounds(model: str, **fields: Any) -> OutputBounds:
    size = reply_size(Write(Task("Explain.", None, (), "482913")), request())
    return output_bounds(ModelChoice(model=model, **fields), size)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 10, 100, 160),
        ("Съешь же ещё этих мягких французских булок. " * 10, 250, 300),
        ("返金の方法と期限をわかりやすく説明してください。" * 10, 240, 260),
        ("ขอคืนเงินได้ภายในสามสิบวัน" * 10, 500, 800),
        ("რეფუნდის წესები " * 10, 270, 300),
        ("Đường về nhà xa lắm. " * 10, 70, 130),
    ],
)
def test_tokens_are_estimated_by_bytes_and_script(text: str, least: int, most: int) -> None:
    assert least <= tokens_in(text) <= most
