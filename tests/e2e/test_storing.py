"""A real worker plays what is not to be stored: prompts, replies, stages, sums and jobs."""

import asyncio
from typing import Any

from redis import Redis

from tests.api.test_erasure import traces
from tests.e2e.running_service import RunningService
from tests.waiting import TIMEOUT_S

MARK = "xyzzy"
CRITERION = {"name": f"of-{MARK}", "description": f"Says what {MARK} is."}
REQUEST: dict[str, Any] = {
    "store": False,
    "task": f"Explain {MARK}.",
    "draft": f"A text about {MARK}.",
    "context": [{"name": f"{MARK}.md", "text": f"{MARK} is a word."}],
    "criteria": [CRITERION],
    "strategy": {"kind": "stepwise", "stages": [{"name": MARK, "criteria": [CRITERION]}]},
    "outputs": [{"name": MARK, "instructions": f"A line about {MARK}."}],
    "metadata": {MARK: MARK},
}


async def test_no_key_has_any_text_once_the_result_was_delivered(service: RunningService) -> None:
    prefer = {"Prefer": "wait=60", "Idempotency-Key": "unstored"}
    done = await service.client.post("/v1/refinements", json=REQUEST, headers=prefer)
    assert (done.status_code, done.json()["status"]) == (200, "succeeded"), done.text
    assert done.json()["result"]["outputs"].keys() == {MARK}
    with Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as redis:
        async with asyncio.timeout(TIMEOUT_S):
            while any(MARK in it + held for it, held in traces(redis).items()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    after = await service.get(done.json()["id"])
    assert (after["result"], after["metadata"]) == (None, {})
    assert after["usage"] == done.json()["usage"]
    assert [it["score"] for it in after["scores"]] == [it["score"] for it in done.json()["scores"]]
