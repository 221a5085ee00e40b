"""A model that fails is replaced by the next one, within the same step."""

from collections.abc import Mapping

import pytest

from app.contract.events import Tried
from app.contract.judgement import Usage
from tests.models.calls import call
from workers.models.port import (
    ModelCall,
    ModelError,
    ModelRefused,
    ModelReply,
    UnreadableReply,
)
from workers.play.executor import ask_in_turn

SPENT = Usage(calls=3, input_tokens=7, cost_usd=0.25)


class ModelsByName:
    """Models by name, each with one answer or one way to fail; `asked` are the calls in order."""

    def __init__(self, models: Mapping[str, str | ModelError]) -> None:
        self.asked: list[ModelCall] = []
        self._models = models

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        self.asked.append(call)
        answer = self._models[name]
        if isinstance(answer, ModelError):
            raise answer
        return ModelReply(answer, name, Usage(calls=1, output_tokens=5, cost_usd=0.5))


async def test_a_model_that_answers_is_the_only_one_asked() -> None:
    models = ModelsByName({"a:1": "said"})
    served = await ask_in_turn(models.complete, ("a:1", "b:1"), call(model="a:1"))
    assert (served.reply.text, served.reply.model, served.tried) == ("said", "a:1", ())
    assert [it.key for it in models.asked] == [call().key]


@pytest.mark.parametrize("kind", [ModelError, ModelRefused, UnreadableReply])
async def test_the_next_one_answers_whatever_was_wrong_with_the_first(
    kind: type[ModelError],
) -> None:
    models = ModelsByName({"a:1": kind("broke", SPENT), "b:1": "said"})
    served = await ask_in_turn(models.complete, ("a:1", "b:1"), call())
    assert (served.reply.text, served.reply.model) == ("said", "b:1")
    assert served.tried == (Tried(model="a:1", code=kind.code, detail="broke"),)


async def test_usage_adds_up_what_every_try_consumed() -> None:
    models = ModelsByName({"a:1": ModelError("x", SPENT), "b:1": ModelRefused("y"), "c:1": "said"})
    served = await ask_in_turn(models.complete, ("a:1", "b:1", "c:1"), call())
    usage = served.reply.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (4, 7, 5)
    assert usage.cost_usd == 0.75


async def test_a_cost_that_is_unknown_for_one_try_is_unknown_for_the_step() -> None:
    lost = ModelError("reset", Usage(calls=3, cost_usd=None))
    models = ModelsByName({"a:1": lost, "b:1": "said"})
    served = await ask_in_turn(models.complete, ("a:1", "b:1"), call())
    assert served.reply.usage.cost_usd is None


async def test_every_model_is_asked_under_a_key_of_its_own() -> None:
    models = ModelsByName({"a:1": ModelRefused("x"), "b:1": ModelRefused("y"), "c:1": "said"})
    await ask_in_turn(models.complete, ("a:1", "b:1", "c:1"), call(model="a:1"))
    key = call().key
    assert [it.key for it in models.asked] == [key, f"{key};model=b:1", f"{key};model=c:1"]
    assert [it.model for it in models.asked] == ["a:1", "b:1", "c:1"]


async def test_when_all_fail_the_last_error_names_every_model_and_its_error() -> None:
    models = ModelsByName({"a:1": ModelError("down", SPENT), "b:1": ModelRefused("no key", SPENT)})
    with pytest.raises(ModelRefused) as caught:
        await ask_in_turn(models.complete, ("a:1", "b:1"), call())
    assert caught.value.detail == "a:1: down; b:1: no key"
    assert caught.value.usage == SPENT + SPENT


async def test_the_error_of_a_model_without_fallbacks_stays_as_it_is() -> None:
    with pytest.raises(ModelError) as caught:
        await ask_in_turn(ModelsByName({"a:1": ModelError("down")}).complete, ("a:1",), call())
    assert caught.value.detail == "down"
