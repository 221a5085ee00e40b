"""The stage on which refinements are played."""

from collections.abc import AsyncIterator

import pytest

from tests.workers.stage import Stage, open_stage


@pytest.fixture
async def stage(redis_url: str) -> AsyncIterator[Stage]:
    """A stage over an empty Redis."""
    async with open_stage(redis_url) as opened:
        yield opened
