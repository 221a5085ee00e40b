"""What one worker was told that a server rejects, no other worker is told again."""

from redis.asyncio import Redis

from app.store.rate_limits import KEPT_S, Rejections
from app.store.redis import keys
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.models.calls import RecordingBehaviour, call, serving
from tests.models.test_openai import reasoning_model


def particular(asked: AskedPrompt) -> ModelServerReply:
    if asked.json.get("max_completion_tokens", 0) > 8_192:
        return refusal(400, "max_completion_tokens is too large: it must be at most 8192")
    return reasoning_model(asked)


async def test_parameters_that_a_server_rejected_are_sent_by_no_other_worker(
    redis_url: str,
) -> None:
    question = call(temperature=0, max_output_tokens=50_000)
    async with Redis.from_url(redis_url, protocol=2) as redis:
        shared = Rejections(redis, "f")
        for requests in (4, 1):  # one after the other, each with an experience of its own
            behaviour = RecordingBehaviour(particular)
            async with serving(behaviour, shared=shared) as (model, _):
                await model.complete(question)
            assert len(behaviour.asked) == requests
            assert behaviour.asked[-1].json["max_completion_tokens"] == 8_192
            assert "temperature" not in behaviour.asked[-1].json
        name = keys.REJECTED + f"local:{question.model}@f"
        assert 0 < await redis.ttl(name) <= KEPT_S
        await redis.delete(name)  # as it expires
        behaviour = RecordingBehaviour(particular)
        async with serving(behaviour, shared=shared) as (model, _):
            await model.complete(question)
        assert len(behaviour.asked) == 4


async def test_a_redis_that_is_away_holds_no_call_up() -> None:
    away = Rejections(Redis.from_url("redis://127.0.0.1:1/0", protocol=2), "f")
    async with serving(lambda _: chat("done"), shared=away) as (model, _):
        assert (await model.complete(call())).text == "done"
