"""What people do to a refinement: reviews, of which none is lost, and commands."""

import re
from json import dumps
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser, Locator, Page, Route, expect

from app.cli.processes import url_of
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, draft
from benchmarks.scripted_examples import BOOKED, DINNER, find_or_book_table
from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering, hanging_at
from tests.e2e.test_reviews import until_asked
from tests.local_endpoint import endpoint
from workers.outbound.guarded_client import EndpointUnavailable

pytestmark = pytest.mark.long

EACH = {"when": "each_iteration"}


async def at_review(page: Page, service: RunningService, **fields: Any) -> str:
    """Submit something to review, and open it; return the id."""
    refinement_id = await service.submit(**{"review": EACH, **fields})
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(panel(page)).to_be_visible()
    await expect(draft_shown(page)).to_be_visible()
    return refinement_id


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Review of")


def draft_shown(page: Page) -> Locator:
    return page.get_by_role("region", name="The draft under review")


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def test_a_remark_on_a_marked_passage_changes_that_passage_alone(
    page: Page, service: RunningService
) -> None:
    prompts: list[str] = []

    def rewrite(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        if key != "iterations/2/revise":
            return None
        prompts.append(asked.body.decode())
        return chat(dumps({"passages": {"p1": "Draft number 2"}}))

    service.models.behaviour = answering(rewrite)
    refinement_id = await at_review(page, service)
    box = draft_shown(page)
    await box.evaluate(
        """(box) => {
            const text = box.firstChild;
            getSelection().setBaseAndExtent(text, 0, text, "Draft number 1".length);
            box.dispatchEvent(new MouseEvent("mouseup", {bubbles: true}));
        }"""
    )
    await expect(page.get_by_label("Passage")).to_have_value("Draft number 1")
    await page.get_by_label("Remark on it").fill("Count <b>on</b>.")
    await press(page, "Add the remark")
    await expect(box.locator("mark")).to_have_text("Draft number 1")
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
    await page.reload()
    await expect(draft_shown(page).locator("mark")).to_have_text("Draft number 1")
    await press(page, "Ask for a revision")
    await until_asked(service, refinement_id, "iterations/2/review")
    assert "Count <b>on</b>." in prompts[0]
    second = await service.get(refinement_id, "/iterations/2")
    assert second["draft"] == draft(1).replace("Draft number 1", "Draft number 2", 1)


async def test_the_second_of_two_reviewers_sees_who_was_first_and_loses_nothing(
    page: Page, browser: Browser, service: RunningService
) -> None:
    refinement_id = await at_review(page, service)
    second = await browser.new_page(base_url=url_of(service.settings))
    await second.goto(page.url)
    await second.get_by_label("What to change").fill("Say it in one sentence.")
    await page.get_by_label("Your name").fill("ann")
    await page.get_by_label("What to change").fill("Name the deadline.")

    async def late(route: Route) -> None:
        """Let the other one be first, after this one has pressed the button."""
        assert route.request.headers["if-match"]
        await press(page, "Ask for a revision")
        await expect(page.get_by_role("status").filter(has_text="Sent:")).to_be_visible()
        await route.continue_()

    await second.route("**/reviews", late)
    await press(second, "Ask for a revision")
    unsent = second.get_by_role("region", name="Not sent: review iterations/1/review")
    await expect(unsent.get_by_role("alert")).to_contain_text(
        "ann was first: a revision was asked for, “Name the deadline.”"
    )
    await expect(unsent).to_contain_text("Say it in one sentence.")
    await until_asked(service, refinement_id, "iterations/2/review")
    await second.reload()
    await expect(unsent).to_contain_text("Say it in one sentence.")
    await expect(draft_shown(second)).to_contain_text("Draft number 2")
    assert await violations(second) == []
    asked = await service.get(refinement_id, "/iterations/2")
    assert asked["asked"][0] == "review: Name the deadline."
    await second.close()


async def test_an_approval_of_another_reviewer_in_between_is_shown_before_the_next_one(
    page: Page, service: RunningService
) -> None:
    review = {**EACH, "reviewers": ["ann", "bob"], "approvals": "all"}
    refinement_id = await at_review(page, service, review=review)
    await page.get_by_label("Your name").select_option("bob")
    await page.get_by_label("What to change").fill("Well done.")

    async def late(route: Route) -> None:
        word = {"action": "approve", "reviewer": "ann", "feedback": "Fine."}
        path = f"/v1/refinements/{refinement_id}/reviews"
        assert (await service.client.post(path, json=word)).status_code == 202
        await route.continue_()

    await page.route("**/reviews", late, times=1)
    await press(page, "Approve")
    await expect(panel(page).get_by_role("alert")).to_contain_text("ann approved it, “Fine.”")
    await expect(panel(page)).to_contain_text("1 of 2 approvals; 1 more is needed.")
    await expect(page.get_by_label("What to change")).to_have_value("Well done.")
    await press(page, "Approve")
    ended = await service.ended(refinement_id)
    assert ended["reviewed"]["approved_by"] == ["ann", "bob"]
    await expect(panel(page)).to_be_hidden()


async def test_a_reviewer_edits_the_draft_scores_and_rejects(
    page: Page, service: RunningService
) -> None:
    refinement_id = await at_review(page, service)
    await press(page, "Edit the draft")
    await page.get_by_label("Your draft").fill(draft(1).replace("Draft number 1", "Draft number 9"))
    await press(page, "Show what I changed")
    await expect(page.locator("ins")).to_have_text("9")
    assert await violations(page) == []
    await press(page, "Send this draft")
    await until_asked(service, refinement_id, "iterations/2/review")
    await expect(draft_shown(page)).to_contain_text("Draft number 9")
    await page.get_by_label("Your score").fill("0.25")
    await press(page, "Only score it")
    asked = await until_asked(service, refinement_id, "iterations/3/review")
    assert asked["scores"][1]["score"] == 0.25
    await expect(page.get_by_role("region", name="Review of iterations/3")).to_be_visible()
    await expect(draft_shown(page)).to_contain_text("Draft number 10")
    await press(page, "Reject")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    opener = page.get_by_role("button", name="Reject", exact=True)
    await expect(opener).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    at_once = "it => it.addEventListener('focus', () => it.click(), {once: true})"
    await opener.evaluate(at_once)  # nobody is quicker than that
    await page.keyboard.press("Escape")
    await expect(opener).not_to_be_focused()
    await press(page, "Reject the draft")
    assert (await service.ended(refinement_id))["stop_reason"] == "rejected"


async def choose(page: Page, name: str) -> Locator:
    """Open the dialog of a command, which has no violation; return it."""
    await press(page, f"{name}…")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    assert await violations(page) == []
    return dialog


async def test_commands_are_there_where_they_are_possible_and_say_what_came_of_them(
    page: Page, service: RunningService
) -> None:
    refinement_id = await at_review(page, service)
    await page.emulate_media(color_scheme="dark")
    dialog = await choose(page, "Change limits")
    await dialog.get_by_label("Iterations").fill("99")
    await dialog.get_by_role("button", name="Change", exact=True).click()
    await expect(dialog).to_be_visible()  # the browser refuses more than 50
    await dialog.get_by_label("Iterations").fill("2")
    await dialog.get_by_label("Threshold").fill("0.5")
    await dialog.get_by_role("button", name="Change", exact=True).click()
    said = page.get_by_text("Changed: threshold is 0.5, max_iterations is 2.")
    await expect(said).to_be_visible()
    await expect(page.get_by_text("threshold 0.50").first).to_be_visible()
    dialog = await choose(page, "Finish now")
    await dialog.get_by_role("button", name="Finish now").click()
    await expect(page.get_by_text("it was finished early")).to_be_visible()
    assert (await service.ended(refinement_id))["stop_reason"] == "finished_early"
    await expect(page.get_by_role("button", name="Cancel…")).to_be_hidden()

    dialog = await choose(page, "Rate a draft")
    await dialog.get_by_label("What it deserves").fill("0.3")
    await dialog.get_by_label("Your name").fill("ann")
    await dialog.get_by_role("button", name="Rate it").click()
    await expect(page.get_by_text("Your rating of iterations/1 is recorded.")).to_be_visible()
    (rating,) = (await service.get(refinement_id, "/iterations/1"))["ratings"]
    assert (rating["score"], rating["by"]) == (0.3, "ann")

    dialog = await choose(page, "Continue")
    await dialog.get_by_label("What to change").fill("Name the deadline.")
    await dialog.get_by_label("Other fields").fill('{"max_iterations": 1}')
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
    await dialog.get_by_role("button", name="Continue", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).not_to_contain_text(refinement_id)
    made = page.url.rpartition("/")[2]
    request = await service.get(made, "/request")
    assert (request["feedback"], request["max_iterations"]) == ("Name the deadline.", 1)
    assert (await service.get(made))["continued_from"]["path"] == "iterations/1"


async def test_a_failed_refinement_is_retried_and_another_one_is_canceled_and_erased(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = answering(
        lambda key, _: chat("no JSON") if key.startswith("iterations/1/critique") else None
    )
    refinement_id = await service.submit(max_iterations=1)
    assert (await service.ended(refinement_id))["status"] == "failed"
    service.models.behaviour = hanging_at("iterations/2/revise")
    await page.goto(f"/console/refinements/{refinement_id}")
    dialog = await choose(page, "Retry")
    await dialog.get_by_label("Iterations").fill("3")
    await dialog.get_by_role("button", name="Retry").click()
    await expect(page.get_by_text("It is tried again.")).to_be_visible()
    await expect(page.get_by_text("2 of 3")).to_be_visible()
    dialog = await choose(page, "Cancel")
    await dialog.get_by_role("button", name="Cancel the refinement").click()
    assert (await service.ended(refinement_id))["status"] == "canceled"
    await expect(page.get_by_role("button", name="Continue…")).to_be_visible()
    dialog = await choose(page, "Erase")
    erase = dialog.get_by_role("button", name="Erase for ever")
    await erase.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("type the last four characters")
    await dialog.get_by_label("Type the last four").fill(refinement_id[-4:])
    await erase.click()
    await expect(page.get_by_role("heading", name="Refinements", level=1)).to_be_visible()
    assert (await service.client.get(f"/v1/refinements/{refinement_id}")).status_code == 404


async def test_the_keyboard_is_enough_and_a_read_link_steers_nothing(
    page: Page, browser: Browser, service: RunningService
) -> None:
    refinement_id = await at_review(page, service)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("edit the")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.keyboard.press("r")
    await page.keyboard.type("a fallen star")  # in a field, letters are letters
    await expect(page.get_by_label("What to change")).to_have_value("a fallen star")
    await expect(page.get_by_role("dialog")).to_be_hidden()

    await press(page, "Read link…")
    await press(page, "Make the link")
    link = await page.get_by_label("Link, until").input_value()
    reader = await browser.new_page()
    await reader.goto(link)
    await expect(reader.get_by_text("Approve it, reject it").last).to_be_visible()
    await expect(
        reader.get_by_role("button", name=re.compile("Approve|Erase|Cancel"))
    ).to_have_count(0)
    assert await violations(reader) == []
    await reader.close()

    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Read link…").focus()
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    ended = await service.ended(refinement_id)
    assert ended["stop_reason"] == "approved"


async def test_a_call_of_a_tool_is_made_with_the_arguments_of_its_reviewer(
    page: Page, service: RunningService
) -> None:
    called: list[dict[str, Any]] = []

    async def tables(request: web.Request) -> web.Response:
        called.append((await request.json())["arguments"])
        try:
            return web.Response(text=find_or_book_table(called[-1]))
        except EndpointUnavailable as error:
            return web.Response(status=404, text=str(error))

    said = {**DINNER.says, **BOOKED}
    service.models.behaviour = answering(lambda key, _: chat(said[key]))
    async with endpoint(tables) as (url, *_):
        tools = [{**it, "url": url} for it in DINNER.request["tools"]]
        refinement_id = await service.submit(**{**DINNER.request, "tools": tools})
        await until_asked(service, refinement_id, "steps/4/approval")
        await page.goto(f"/console/refinements/{refinement_id}")
        call = page.get_by_label("Arguments")
        await expect(call).to_have_value(re.compile('"seats": 12'))
        assert await violations(page) == []
        await call.fill('{"place": "garden", "seats": }')
        send = page.get_by_role("button", name="Call it with these arguments")
        await expect(send).to_be_disabled()
        await expect(page.get_by_text("Not JSON")).to_be_visible()
        await page.get_by_role("button", name="Undo my changes").click()
        await expect(call).to_be_focused()  # not what decides
        await call.fill('{"place": "garden", "seats": 10}')
        await send.click()
        await service.ended(refinement_id)
    assert called[-1] == {"place": "garden", "seats": 10}
