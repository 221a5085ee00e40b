"""What one worker was told that a server rejects, no other worker is told again."""

from redis.asyncio import Redis

from app.settings import Settings
from app.store import open_rejections
from app.store.rate_limits import KEPT_S
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
    async with (
        Redis.from_url(redis_url, protocol=2) as redis,
        open_rejections(Settings(redis_url=redis_url)) as of_server,
    ):
        assert of_server
        shared = of_server("f")
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
    async with open_rejections(Settings(redis_url="redis://127.0.0.1:1/0")) as away:
        assert away
        async with serving(lambda _: chat("done"), shared=away("f")) as (model, _):
            assert (await model.complete(call())).text == "done"
