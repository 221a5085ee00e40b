"""Many clients at once: each gets its turn, and a busy API is no Redis that is away."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from app.settings import Settings
from tests.api.api_client import REQUEST, submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

HERD = 300
NUMBER = re.compile(r"^id: (\d+)$", re.MULTILINE)


@pytest.fixture
async def herd(settings: Settings, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Clients of an API that gives Redis far less time than the herd needs for itself."""
    impatient = settings.model_copy(update={"redis_timeout_s": 0.4})
    limits = httpx.Limits(max_connections=None)
    with running(impatient) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as client:
            yield client


async def test_every_stream_of_a_herd_is_opened_and_has_no_gap(herd: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(herd)}"
    opened = asyncio.Semaphore(0)

    async def watch() -> list[int]:
        async with herd.stream("GET", f"{url}/events") as response:
            assert response.status_code == 200, await response.aread()
            text = ""
            async for more in response.aiter_text():
                if not text:
                    opened.release()
                text += more
        return [int(number) for number in NUMBER.findall(text)]

    watchers = [asyncio.create_task(watch()) for _ in range(HERD)]
    for _ in range(HERD):
        await opened.acquire()
    await herd.post(f"{url}/cancel")
    assert await asyncio.gather(*watchers) == [[1, 2]] * HERD


async def test_every_submission_of_a_herd_is_accepted(herd: httpx.AsyncClient) -> None:
    validated = {**REQUEST, "validators": [{"kind": "regex", "pattern": "line"}]}
    answers = await asyncio.gather(
        *(herd.post("/v1/refinements", json=validated) for _ in range(HERD))
    )
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == HERD
