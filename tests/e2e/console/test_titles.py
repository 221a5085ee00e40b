"""The titles of pages, by which tabs and the browser's history tell them apart."""

from playwright.async_api import Page, expect

from tests.e2e.console.conftest import PHONE, isolated, scrolls_sideways, titled, violations
from tests.e2e.running_service import RunningService

PARTS = ["Overview", "Drafts", "Steps", "Request", "Events"]
TURNED = "\u202emoc.live <b>bold</b>"
SHOWN = "[U+202E]moc.live <b>bold</b>"


async def test_each_part_of_a_refinement_has_a_title_with_the_beginning_of_its_text(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(task=TURNED, max_iterations=1)
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    titles = {it: titled("best effort", it, isolated(SHOWN), refinement_id) for it in PARTS}
    for part, title in titles.items():
        await page.get_by_role("link", name=part, exact=True).click()
        await expect(page).to_have_title(title)
    await page.go_back()
    await expect(page).to_have_title(titles["Request"])
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text(f"{SHOWN} best effort {refinement_id}")
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []


async def test_every_other_page_has_a_title_of_its_own(page: Page, service: RunningService) -> None:
    refinement_id = await service.submit(max_iterations=1)
    filters = [f"status {isolated('failed')}", f"metadata {isolated('a=b')}"]
    titles = {
        "": ["New refinement"],
        "/refinements": ["Refinements"],
        "/refinements?status=failed&metadata=a%3Db": ["Refinements", *filters],
        "/reviews": ["Reviews"],
        "/batches": ["Batches"],
        "/new": ["New refinement"],
        f"/new?from={refinement_id}": ["New refinement", f"from {isolated(refinement_id)}"],
        "/nowhere": ["Nothing here"],
        "#token=nope": ["The link is not complete"],
    }
    for address, title in titles.items():
        await page.goto("about:blank")
        await page.goto(f"/console{address}")
        await expect(page).to_have_title(titled(*title))
