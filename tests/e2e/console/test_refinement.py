"""The page of one refinement: how it stands, its chart and time line, and its other parts."""

from playwright.async_api import Page, expect

from tests.e2e.console.conftest import violations
from tests.e2e.running_service import RunningService


async def test_the_head_of_a_refinement_says_how_it_stands_and_why_it_ended(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(max_iterations=2, metadata={"ticket": "<img src=x>"})
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("The number of drafts reached the maximum")).to_be_visible()
    await expect(page.get_by_text("threshold 0.85, not passed")).to_be_visible()
    await expect(page.get_by_text("ticket: <img src=x>")).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
