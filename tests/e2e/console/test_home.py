"""Home: a text is pasted, one key makes it better, and each change is accepted or undone."""

import pytest
from playwright.async_api import Page, expect

from benchmarks.model_replies import (
    AskedPrompt,
    ModelServerReply,
    between_marks,
    chat,
    critique,
)
from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering, hanging_at

ROUGH = "In order to get a refund, you should contact our team. Refunds are are processed soon."
SMOOTH = "To get a refund, you should contact our team. Refunds are processed soon."
EDITOR = {"generator": "offline:editor", "critic": "offline:editor"}


async def edited(page: Page, service: RunningService) -> None:
    """Have the rough text edited, and show what became of it."""
    criteria = [{"name": "conciseness"}, {"name": "spelling"}]
    refinement_id = await service.submit(task=None, draft=ROUGH, models=EDITOR, criteria=criteria)
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("2 changes", exact=True)).to_be_visible()


async def test_a_text_is_pasted_and_one_key_sends_it(page: Page, service: RunningService) -> None:
    await page.goto("/console")
    await expect(page.get_by_label("Your text")).to_be_focused()
    assert await violations(page) == []
    await page.keyboard.insert_text(ROUGH)
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("What should be better?")).to_be_focused()
    await page.keyboard.type("Shorter.")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Improve")).to_be_focused()
    await page.keyboard.press("ControlOrMeta+Enter")
    await page.wait_for_url("**/refinements/ref_*")
    request = await service.get(page.url.rpartition("/")[2], "/request")
    assert (request["draft"], request["task"]) == (ROUGH, "Shorter.")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("In order to get a refund")


async def test_the_text_is_shown_before_anything_is_decided(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = hanging_at("iterations/0/critique")
    refinement_id = await service.submit(draft=ROUGH)
    await page.goto(f"/console/refinements/{refinement_id}")
    text = page.get_by_role("region", name="The text")
    await expect(text).to_contain_text(ROUGH)
    await expect(text).to_contain_text("Nothing is changed yet.")
    await expect(page.get_by_text("Judging the text")).to_be_visible()
    assert await violations(page) == []


@pytest.mark.long
async def test_changes_appear_in_the_text_while_it_is_worked_on(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = hanging_at("iterations/2/critique")
    refinement_id = await service.submit(draft=ROUGH)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("so far", exact=False).first).to_be_visible()
    await expect(page.locator(".prose ins").first).to_contain_text("Draft number 1")
    await expect(page.get_by_role("button", name="Accept all")).to_have_count(0)


@pytest.mark.long
async def test_changes_have_reasons_and_are_accepted_or_undone(
    page: Page, service: RunningService
) -> None:
    await edited(page, service)
    first = page.locator("[data-change]").first
    await expect(first.locator("del")).to_have_text("In order to")
    await page.keyboard.press("n")
    await expect(first).to_be_focused()
    card = page.get_by_role("complementary", name="The change")
    await expect(card).to_contain_text("Change 1 of 2")
    await expect(first).to_have_attribute("data-why", card_reason := await card_text(page))
    assert card_reason
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
    await page.keyboard.press("Backspace")
    await expect(page.get_by_text("2 changes, 1 to decide")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("2 changes, all decided")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("2 changes, all decided")).to_be_visible()
    await page.get_by_role("button", name="Clean").click()
    await expect(page.locator("pre.text").first).to_have_text(
        SMOOTH.replace("To get", "In order to get")
    )
    await page.get_by_role("button", name="Before").click()
    await expect(page.locator("pre.text").first).to_have_text(ROUGH)
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)


@pytest.mark.long
async def test_a_replaced_phrase_is_one_change(page: Page, service: RunningService) -> None:
    before = "We are of the opinion that the lid broke due to the fact that the box fell."
    after = "We think the lid broke because the box fell."

    def revision(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        if key.endswith("/revise"):
            return between_marks(chat(after), asked)
        better = 0.9 if after.encode() in asked.body else 0.4
        return chat(critique(1, "quality").replace("0.4", str(better)))

    service.models.behaviour = answering(revision)
    refinement_id = await service.submit(task=None, draft=before)
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    changes = page.locator("[data-change]")
    await expect(changes.locator("del")).to_have_text(
        ["are of the opinion that", "due to the fact that"]
    )
    await changes.first.click()
    await page.get_by_role("button", name="Next change").click()
    await expect(page.get_by_role("complementary", name="The change")).to_contain_text("2 of 2")
    await page.keyboard.press("Backspace")
    await expect(page.get_by_text("the score is that of the text with all changes")).to_be_visible()


async def card_text(page: Page) -> str:
    return await page.locator(".card .why").inner_text()


@pytest.mark.long
async def test_a_title_that_was_given_stands_everywhere(
    page: Page, service: RunningService
) -> None:
    await page.goto("/console/new")
    await page.get_by_label("Your text").fill(ROUGH)
    await page.get_by_label("Title").fill("Refund letter")
    await page.get_by_role("button", name="Improve").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Refund letter")
    await page.goto("/console/refinements")
    await page.get_by_label("Search").fill("refund LETTER")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.get_by_role("link", name="Refund letter")).to_be_visible()
    await expect(page.get_by_text("Of archived texts only the titles")).to_be_visible()
    assert await violations(page) == []
