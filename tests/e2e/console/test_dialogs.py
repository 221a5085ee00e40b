"""Dialogs and shortcuts with the keyboard: where the focus is, and where it is afterwards."""

from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from benchmarks.model_replies import draft
from tests.e2e.console.conftest import violations
from tests.e2e.running_service import RunningService

pytestmark = pytest.mark.long

EACH = {"when": "each_iteration"}
COMMANDS = ["Finish now…", "Change limits…", "Cancel…", "Rate a draft…", "Read link…", "Erase…"]


async def at_review(page: Page, service: RunningService, **fields: Any) -> str:
    """Open a refinement whose first draft is under review; return the id."""
    refinement_id = await service.submit(review=EACH, **fields)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(button(page, "Edit the draft")).to_be_visible()
    await expect(button(page, "Rate a draft…")).to_be_visible()
    return refinement_id


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


async def opened(page: Page, name: str) -> Locator:
    """Open a dialog with Enter; return it."""
    await button(page, name).focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    return dialog


async def leave(page: Page, dialog: Locator) -> None:
    """Close a dialog with its own button."""
    await dialog.get_by_role("button", name="Back").or_(dialog.get_by_text("Close")).last.focus()
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()


async def test_a_dialog_gives_the_focus_back_however_it_is_closed(
    page: Page, service: RunningService
) -> None:
    await at_review(page, service)
    for name in [*COMMANDS, "Keyboard shortcuts", "Reject"]:
        await leave(page, await opened(page, name))
        await expect(button(page, name)).to_be_focused()
        dialog = await opened(page, name)
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await expect(button(page, name)).to_be_focused()


async def test_the_focus_stays_in_a_dialog_that_failed_and_goes_back_from_one_that_succeeded(
    page: Page, service: RunningService
) -> None:
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        """Refuse the first change; the page may read it meanwhile."""
        if refused or route.request.method != "PATCH":
            await route.continue_()
        else:
            refused.append(route.request.url)
            await route.fulfill(status=409, json={"detail": "Not now.", "code": "conflict"})

    refinement_id = await at_review(page, service)
    await page.route(f"**/refinements/{refinement_id}", refuse)
    dialog = await opened(page, "Change limits…")
    await dialog.get_by_label("Threshold").fill("0.5")
    await dialog.get_by_role("button", name="Change").focus()
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text("Not now.")
    await expect(dialog.get_by_role("button", name="Change")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()
    await expect(button(page, "Change limits…")).to_be_focused()


@pytest.mark.parametrize("is_gone_before", [True, False])
async def test_the_heading_has_the_focus_when_the_command_is_gone(
    page: Page, service: RunningService, is_gone_before: bool
) -> None:
    refinement_id = await at_review(page, service)
    dialog = await opened(page, "Cancel…")
    if is_gone_before:
        await service.send("POST", f"/v1/refinements/{refinement_id}/cancel")
        await expect(page.locator("button", has_text="Cancel…")).to_have_count(0)
        await leave(page, dialog)
    else:
        await dialog.get_by_role("button", name="Cancel the refinement").focus()
        await page.keyboard.press("Enter")
        await expect(button(page, "Cancel…")).to_have_count(0)
    await expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert await violations(page) == []


async def test_the_key_e_leads_into_the_text_of_the_draft(
    page: Page, service: RunningService
) -> None:
    await at_review(page, service)
    text = page.get_by_label("Your draft")
    await page.keyboard.press("e")
    await expect(text).to_be_focused()
    await page.keyboard.type("Mine. e")
    await expect(text).to_have_value(f"Mine. e{draft(1)}")
    await button(page, "Discard my changes").focus()
    await page.keyboard.press("e")
    await expect(text).to_be_focused()
    await page.reload()
    await expect(text).to_have_value(f"Mine. e{draft(1)}")
    await expect(text).not_to_be_focused()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("a", "Approve"),
        ("r", "What to change, in the whole draft"),
        ("x", "Reject"),
        ("f", "Finish now"),
        ("l", "Threshold"),
        ("s", "What it deserves"),
        ("?", "Close"),
    ],
)
async def test_a_shortcut_leads_to_what_is_done_next(
    page: Page, service: RunningService, key: str, name: str
) -> None:
    await at_review(page, service)
    await page.keyboard.press(key)
    place = page.get_by_label(name).or_(page.get_by_role("button", name=name, exact=True))
    await expect(page.locator(":focus").and_(place)).to_be_visible()


async def test_the_shortcuts_of_what_has_ended_lead_to_words_on_what_to_change(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(max_iterations=1)
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(button(page, "Continue…")).to_be_visible()
    await page.keyboard.press("c")
    await expect(page.get_by_label("What to change")).to_be_focused()


async def test_erasing_asks_for_the_end_of_the_id_and_says_what_it_expects(
    page: Page, service: RunningService
) -> None:
    refinement_id = await at_review(page, service)
    dialog = await opened(page, "Erase…")
    field = dialog.get_by_label("Type the last four")
    await expect(field).to_be_focused()
    await page.keyboard.type("nope")
    await page.keyboard.press("Enter")
    alert = dialog.get_by_role("alert")
    await expect(alert).to_contain_text(f"the last four characters of its id: {refinement_id[-4:]}")
    await expect(field).to_be_focused()
    assert await violations(page) == []
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type(refinement_id[-4:].lower())
    await expect(alert).to_be_hidden()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Refinements", level=1)).to_be_focused()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("Change limits…", "Nothing is changed yet"),
        ("Rate a draft…", "Type a score, or choose a draft"),
    ],
)
async def test_a_dialog_says_what_is_missing(
    page: Page, service: RunningService, command: str, said: str
) -> None:
    await at_review(page, service)
    dialog = await opened(page, command)
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text(said)
