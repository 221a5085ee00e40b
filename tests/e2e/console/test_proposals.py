"""A preset that learns, in the console: propose, read the proof, accept."""

import pytest
from playwright.async_api import Page, expect

from benchmarks.greetings import FORBIDDEN
from tests.e2e.console.conftest import violations
from tests.e2e.reviewed_preset import reviewed
from tests.e2e.running_service import RunningService

pytestmark = pytest.mark.long


async def test_a_person_reads_the_proof_and_accepts(service: RunningService, page: Page) -> None:
    await reviewed(service, "polite")
    await page.goto("/console/presets")
    proposals = page.get_by_label("Proposals for polite")
    await proposals.get_by_role("button", name="Propose a change").click()
    await expect(proposals).to_contain_text("Use proposed: the judge scores its texts higher")
    await expect(proposals.get_by_label("What changes")).to_contain_text(FORBIDDEN)
    assert await violations(page) == []
    await proposals.get_by_role("button", name="Accept…").click()
    await page.get_by_role("button", name="Change it").click()
    await expect(proposals).to_contain_text("accepted")
    preset = (await service.client.get("/v1/presets/polite")).json()["request"]
    assert preset["instructions"]["generator"] == FORBIDDEN
