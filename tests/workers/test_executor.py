"""A validator that cannot be run fails its step; the draft is not judged by silence."""

import asyncio

import pytest

from app.contract.events import StepCompleted, StepFailed
from app.contract.judgement import QUALITY, FindingsReply
from app.contract.models import ModelChoice
from app.contract.validators import AnyValidator
from app.contract.validators.http import HttpValidator
from app.contract.validators.text import ContainsValidator
from workers.engine.asking import question
from workers.engine.moves import Check
from workers.engine.prompts import Judge, Task
from workers.model_registry import ModelRegistry
from workers.models.port import ModelCall, ModelReply
from workers.models.scripted import Scripted
from workers.play.executor import StepExecutor
from workers.validators.running import compile_validators

TASK = Task("Explain refunds.", None, (QUALITY,), "482913")


async def performed(*validators: AnyValidator) -> StepCompleted | StepFailed:
    executor = StepExecutor("ref_1", ModelRegistry({}), {}, compile_validators(validators))
    return await executor.perform(Check("iterations/1/check", "a draft"))


async def test_a_validator_that_cannot_be_run_is_a_failed_step() -> None:
    began = asyncio.get_running_loop().time()
    entry = await performed(HttpValidator(kind="http", url="https://example.com"))
    assert isinstance(entry, StepFailed)
    assert 0 <= entry.usage.seconds <= asyncio.get_running_loop().time() - began
    assert (entry.key, entry.code) == ("iterations/1/check", "validator_unavailable")
    assert "HONE_SECRET_KEY" in entry.detail


async def test_what_validators_find_is_the_reply_of_the_step() -> None:
    entry = await performed(ContainsValidator(kind="contains", texts=("missing",)))
    assert isinstance(entry, StepCompleted)
    assert isinstance(entry.reply, FindingsReply)
    assert len(entry.reply.findings) == 1


@pytest.mark.parametrize(("chosen", "sent"), [(None, 0.0), (0.0, 0.0), (0.7, 0.7)])
async def test_the_temperature_of_a_call_is_the_clients_else_that_of_its_kind(
    chosen: float | None, sent: float
) -> None:
    model = Scripted(lambda _: "{}")

    class Calls:
        async def complete(self, name: str, call: ModelCall) -> ModelReply:
            return await model.complete(call)

        async def permits(self, _name: str, most: int) -> int:
            return most

    choices = {"critic": ModelChoice(model="scripted:test", temperature=chosen)}
    executor = StepExecutor("ref_1", Calls(), choices, compile_validators(()))
    await executor.perform(question("critique", "critic", Judge(TASK, "A draft.")))
    assert [it.temperature for it in model.calls] == [sent]
