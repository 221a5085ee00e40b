"""What changed between drafts, where the problems are, and what models were asked."""

from playwright.async_api import Page, expect

from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService

DRAFT = (
    "Refunds are are processed soon.\n\n"
    + "This sentence stays as it is, because nothing is wrong with it. 😀\n" * 20
    + "\nIn order to get one, you have payed by card.\n"
)


async def test_changes_are_shown_word_by_word_and_problems_in_the_text(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(
        task=None,
        draft=DRAFT,
        models={"generator": "offline:editor", "critic": "offline:editor"},
        criteria=[{"name": "spelling"}, {"name": "conciseness"}],
    )
    await service.ended(refinement_id)
    await page.goto(
        f"/console/refinements/{refinement_id}/drafts?to=iterations/1&from=iterations/0"
    )
    await expect(page.locator("del").first).to_be_visible()
    await expect(page.get_by_text("unchanged characters")).to_be_visible()
    await page.get_by_role("button", name="In one column").click()
    await page.locator("h1").click()
    await page.keyboard.press("n")
    await expect(page.get_by_text("Change 1 of")).to_be_visible()
    await expect(page.locator("[data-change]").first).to_be_focused()
    assert await violations(page) == []
    await page.get_by_role("button", name="iterations/0").click()
    await expect(page.locator("mark").filter(has_text="payed")).to_be_visible()
    await page.emulate_media(color_scheme="dark")
    assert await violations(page) == []
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)


async def test_a_draft_that_a_stage_begins_with_is_not_called_that_of_the_client(
    page: Page, service: RunningService
) -> None:
    stages = [{"name": "draft"}, {"name": "polish", "mode": "revise"}]
    strategy = {"kind": "stepwise", "stages": stages}
    refinement_id = await service.submit(strategy=strategy, threshold=0.1)
    await service.ended(refinement_id)
    made = await service.client.post(f"/v1/refinements/{refinement_id}/tokens")
    await page.goto(f"/console/refinements/{refinement_id}/drafts")
    options = page.get_by_label("Difference from").get_by_role("option")
    await expect(options.filter(has_text="stages/polish/iterations/0")).not_to_contain_text("yours")
    await page.goto(f"/console/refinements/{refinement_id}#token={made.json()['token']}")
    await expect(page.get_by_role("button", name="Copy the text")).to_be_visible()
    await expect(page.get_by_role("button", name="Before")).to_have_count(0)


async def test_a_step_shows_its_prompt_and_its_reply(page: Page, service: RunningService) -> None:
    refinement_id = await service.submit(task="Explain refunds to <b>Zoë</b>.")
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}/steps")
    await page.get_by_text("iterations/1/critique", exact=True).click()
    prompt = page.locator("pre").filter(has_text="Explain refunds to <b>Zoë</b>.")
    await expect(prompt).to_be_visible()
    await expect(page.get_by_role("heading", name="Answered")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_label("Kind").select_option("tool")
    await expect(page.get_by_text("No steps.")).to_be_visible()
