"""A validator that cannot be run fails its step; the draft is not judged by silence."""

from app.contract.events import FindingsReply, StepCompleted, StepFailed
from app.contract.validators import AnyValidator
from app.contract.validators.http import HttpValidator
from app.contract.validators.text import ContainsValidator
from workers.engine.moves import Check
from workers.model_registry import ModelRegistry
from workers.play.executor import StepExecutor
from workers.validators import compile_validators


async def performed(*validators: AnyValidator) -> StepCompleted | StepFailed:
    executor = StepExecutor("ref_1", ModelRegistry({}), {}, compile_validators(validators))
    return await executor.perform(Check("iterations/1/check", "a draft"))


async def test_a_validator_that_cannot_be_run_is_a_failed_step() -> None:
    entry = await performed(HttpValidator(kind="http", url="https://example.com"))
    assert isinstance(entry, StepFailed)
    assert (entry.key, entry.code) == ("iterations/1/check", "validator_unavailable")
    assert "HONE_SECRET_KEY" in entry.detail


async def test_what_validators_find_is_the_reply_of_the_step() -> None:
    entry = await performed(ContainsValidator(kind="contains", texts=("missing",)))
    assert isinstance(entry, StepCompleted)
    assert isinstance(entry.reply, FindingsReply)
    assert len(entry.reply.findings) == 1
