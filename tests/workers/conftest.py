"""The stage on which refinements are played."""

from collections.abc import AsyncIterator

import pytest

from tests.workers.refinement_harness import RefinementHarness, open_stage


@pytest.fixture
async def stage(redis_url: str) -> AsyncIterator[RefinementHarness]:
    """A stage over an empty Redis."""
    async with open_stage(redis_url) as opened:
        yield opened
