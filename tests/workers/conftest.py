"""The store on which refinements are played."""

from collections.abc import AsyncIterator

import pytest

from tests.workers.refinement_harness import RefinementHarness, open_harness


@pytest.fixture
async def harness(redis_url: str) -> AsyncIterator[RefinementHarness]:
    """A harness over an empty Redis."""
    async with open_harness(redis_url) as opened:
        yield opened
