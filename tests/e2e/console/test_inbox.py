"""The inbox: reviews one after the other, with the keyboard or on a phone."""

import pytest
from playwright.async_api import Page, expect

from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.test_reviews import until_asked

pytestmark = pytest.mark.long

DRAFT = "In order to get refund {}, you should contact our team."


async def waiting(service: RunningService, count: int) -> list[str]:
    """Submit so many texts that wait for a review of a first draft."""
    made = []
    for number in range(count):
        review = {"when": "before_completion", "timeout_s": 1_000 + number}
        made.append(
            await service.submit(
                task=None,
                draft=DRAFT.format(number),
                criteria=[{"name": "conciseness"}],
                models={"generator": "offline:editor", "critic": "offline:editor"},
                review=review,
            )
        )
    for refinement_id in made:
        await until_asked(service, refinement_id, "reviews/1")
    return made


async def test_a_morning_of_reviews_is_done_with_keys(page: Page, service: RunningService) -> None:
    made = await waiting(service, 3)
    await page.goto("/console/reviews")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_contain_text(made[0])
    draft = page.get_by_role("region", name="The draft under review")
    await expect(draft.locator("del")).to_have_text("In order to")
    await expect(page.get_by_text("1 of 3")).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
    await page.keyboard.press("j")
    await expect(heading).to_contain_text(made[1])
    await page.keyboard.press("k")
    await expect(heading).to_contain_text(made[0])
    await expect(draft).to_be_visible()
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    assert (await service.ended(made[0]))["stop_reason"] == "approved"
    await page.get_by_role("button", name="Next review").last.click()
    await expect(heading).to_contain_text(made[1])
    await expect(page.get_by_text("1 of 2")).to_be_visible()


async def test_on_a_phone_the_draft_and_the_decision_stand_on_the_first_screen(
    page: Page, service: RunningService
) -> None:
    await waiting(service, 2)
    await page.set_viewport_size(PHONE)
    await page.goto("/console/reviews")
    draft = page.get_by_role("region", name="The draft under review")
    await expect(draft).to_be_in_viewport(ratio=0.9)
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_in_viewport()
    assert not await scrolls_sideways(page)
    assert await violations(page) == []


async def test_what_is_selected_among_changes_is_a_passage_of_the_draft(
    page: Page, service: RunningService
) -> None:
    (refinement_id,) = await waiting(service, 1)
    await page.goto(f"/console/reviews/{refinement_id}")
    draft = page.get_by_role("region", name="The draft under review")
    await expect(draft.locator("del")).to_be_visible()
    await draft.evaluate("(box) => getSelection().selectAllChildren(box)")  # as fingers do
    passage = page.get_by_label("Passage")
    await expect(passage).to_have_value("To get refund 0, you should contact our team.")
    await page.get_by_role("button", name="Say what is wrong with").click()
    await page.keyboard.type("Say when.")
    await page.get_by_role("button", name="Add the remark").click()
    await expect(draft.locator("ins mark")).to_have_text("To")


async def test_an_empty_inbox_says_how_something_comes_into_it(page: Page) -> None:
    await page.goto("/console/reviews")
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert await violations(page) == []


async def test_the_only_review_stays_in_sight_once_it_is_decided(
    page: Page, service: RunningService
) -> None:
    (made,) = await waiting(service, 1)
    await page.goto("/console")
    await page.get_by_role("link", name="Reviews").click()
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("That was the last one.")).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(made)


async def test_a_draft_that_was_edited_in_place_is_approved_in_one_go(
    page: Page, service: RunningService
) -> None:
    (made,) = await waiting(service, 1)
    await page.goto(f"/console/reviews/{made}")
    await page.get_by_role("button", name="Edit the draft").click()
    await page.get_by_label("Your draft").fill("Write to us for a refund.")
    await page.get_by_role("button", name="Send and approve").click()
    await expect(page.get_by_text("Sent and approved.")).to_be_visible()
    ended = await service.ended(made)
    assert (ended["stop_reason"], ended["result"]["draft"]) == (
        "approved",
        "Write to us for a refund.",
    )


async def test_a_revision_is_asked_for_with_words(page: Page, service: RunningService) -> None:
    (made,) = await waiting(service, 1)
    await page.goto(f"/console/reviews/{made}")
    await page.get_by_role("button", name="Ask for a revision").click()
    await expect(page.get_by_label("What to change, in the whole draft")).to_be_focused()
    await expect(page.get_by_role("alert")).to_contain_text("Say here what to change")
    assert (await service.get(made))["status"] == "paused"
