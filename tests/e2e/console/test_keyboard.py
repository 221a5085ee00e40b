"""Everything of the console with the keyboard alone: the focus is seen, and is never lost."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from benchmarks.model_replies import draft
from tests.e2e.console.conftest import violations
from tests.e2e.running_service import RunningService
from tests.e2e.test_reviews import until_asked
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

MOST_STOPS = 150
FOCUSED = """() => {
    const it = document.activeElement;
    if (!it || it === document.body) return null;
    const box = it.getBoundingClientRect();
    return {
        name: (it.ariaLabel ?? it.labels?.[0]?.textContent ?? it.textContent).trim(),
        isSeen: it.matches(":focus-visible") && getComputedStyle(it).outlineStyle !== "none"
            && box.bottom > 0 && box.top < innerHeight && box.width > 0,
    };
}"""


async def focused(page: Page) -> Any:
    """What has the focus, and whether a person sees it there; None for nothing."""
    return await page.evaluate(FOCUSED)


async def reach(page: Page, name: str, key: str = "Tab") -> None:
    """Press Tab until something whose name begins like this has the focus.

    What is loaded while a key is pressed could push what has the focus out of sight.
    """
    await expect(page.get_by_text("Loading")).to_have_count(0)
    passed = []
    for _ in range(MOST_STOPS):
        await page.keyboard.press(key)
        if not (now := await focused(page)):
            continue  # once around, by way of the browser's own controls
        async with asyncio.timeout(TIMEOUT_S):
            while not now["isSeen"]:  # the browser scrolls to it
                await page.wait_for_timeout(20)
                now = await focused(page)
        passed.append(now["name"][:30])
        if re.match(name, now["name"]):
            return
    raise AssertionError(f"{name} has no place among {passed}")


async def use(page: Page, name: str, key: str = "Enter") -> None:
    """Go to something, and press it."""
    await reach(page, name)
    await page.keyboard.press(key)


async def write(page: Page, name: str, text: str) -> None:
    """Go to a field, and type."""
    await reach(page, name)
    await page.keyboard.type(text)


async def test_a_refinement_is_found_and_all_its_parts_are_read(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(metadata={"ticket": "4711"})
    await service.ended(refinement_id)
    await page.goto("/console/refinements")
    await expect(page.locator("tbody tr", has_text=refinement_id)).to_be_visible()
    await use(page, "Skip to content")
    await use(page, "Filters")
    await use(page, "passed", "Space")
    await expect(page).to_have_url(re.compile("/console/refinements[?]outcome=passed$"))
    await expect(page.locator("tbody tr", has_text=refinement_id)).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="Explain refunds.").first).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(refinement_id)
    await expect(page.locator("#main")).to_be_focused()
    await reach(page, "Iteration")
    await page.keyboard.press("Home")
    await expect(page.get_by_text("score 0.40").first).to_be_visible()
    await use(page, "As a table")
    await expect(page.get_by_role("region", name="Scores as a table")).to_be_visible()
    await use(page, "Drafts")
    await expect(page.get_by_text("changed", exact=False).last).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("next change")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="Drafts")).to_be_focused()
    await expect(page.locator("[data-change]").first).to_be_attached()
    await page.keyboard.press("n")
    await expect(page.locator("[data-change]").first).to_be_focused()
    await page.keyboard.press("p")
    await use(page, "iterations/1")
    await use(page, "Steps")
    await expect(page.get_by_text("iterations/1/critique", exact=True)).to_be_visible()
    await use(page, "iterations/1/critique")
    await expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    await use(page, "Request")
    await use(page, "Show the JSON")
    assert (await focused(page))["name"] == "Copy the JSON"  # what stands there now
    await use(page, "Events")
    await reach(page, "Type")
    await page.keyboard.type("refinement.completed")
    await use(page, r"\d+ ")
    await expect(page.locator("pre.text")).to_contain_text('"status": "succeeded"')


async def test_a_review_is_written_and_sent(page: Page, service: RunningService) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_role("region", name="The draft under review")).to_be_visible()
    for words in ("Draft number 1", "Point 3 in version 1"):
        await write(page, "Passage", words)
        await write(page, "Remark on it", "Count on.")
        await use(page, "Add the remark")
        await expect(page.get_by_label("Passage:")).to_be_focused()
    await reach(page, "Remove the remark on Draft", "Shift+Tab")
    await page.keyboard.press("Enter")
    assert (await focused(page))["name"].startswith("Remove the remark on Point 3")
    await page.keyboard.press("Enter")
    assert (await focused(page))["name"].startswith("Passage")
    await write(page, "Your score", "0.4")
    await use(page, "Edit the draft")
    await expect(page.get_by_label("Your draft")).to_be_focused()
    await page.keyboard.type("Mine. ")
    await use(page, "Show what I changed")
    await expect(page.get_by_role("region", name="What you changed")).to_be_visible()
    await use(page, "Discard my changes")
    await expect(page.get_by_role("button", name="Edit the draft")).to_be_focused()  # not Approve
    await write(page, "What to change", "Shorter.")
    await use(page, "Ask for a revision")
    await until_asked(service, refinement_id, "iterations/2/review")
    await expect(page.get_by_text(draft(2)).first).to_be_visible()
    is_field = "document.activeElement.matches('body, input, textarea, select')"
    assert not await page.evaluate(is_field)  # keys are shortcuts
    await page.keyboard.press("x")
    await page.keyboard.press("Enter")
    await expect(
        page.get_by_role("button", name="Back")
    ).to_be_focused()  # not what cannot be undone
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Reject")).to_be_focused()
    await page.keyboard.press("l")
    await write(page, "Threshold", "")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Reject")).to_be_focused()
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    assert (await service.ended(refinement_id))["stop_reason"] == "approved"
    await expect(page.get_by_role("region", name="Review of")).to_have_count(0)
    assert await focused(page)


async def test_a_request_is_filled_in_copied_and_submitted(
    page: Page, service: RunningService
) -> None:
    await page.goto("/console/new")
    await expect(page.get_by_label("Your text")).to_be_visible()
    await write(page, "Your text", "A text.")
    await reach(page, "Criteria")
    await page.keyboard.type("a list")
    await use(page, "Add criterion")
    await use(page, "Add criterion")
    await reach(page, "Remove Criterion 1", "Shift+Tab")
    await page.keyboard.press("Enter")
    assert (await focused(page))["name"].startswith("Remove Criterion 1")  # the second of the two
    await page.keyboard.press("Enter")
    assert (await focused(page))["name"].startswith("Add criterion")
    await use(page, "As JSON")
    await expect(page.get_by_label("Request")).to_be_visible()
    await use(page, "curl")
    await expect(page.get_by_label("The request in curl")).to_contain_text("A text.")
    assert await violations(page) == []
    await use(page, "Improve")
    await page.wait_for_url("**/refinements/ref_*")
