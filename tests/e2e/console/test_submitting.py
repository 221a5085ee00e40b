"""The form: what is filled in is what is submitted, and the same as code."""

import asyncio
import json
import subprocess
import sys
from typing import Any

from playwright.async_api import Page, expect

from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at
from tests.waiting import TIMEOUT_S

TURNING = "\u202emoc\u2069\u200f"
HOSTILE = f"It's \"quoted\" $HOME `id` {TURNING}\\n é\n'JSON'\nJSON\n</script>\u2028\t§"


async def submitted(page: Page, service: RunningService) -> Any:
    """Press the button, and return the request of the refinement that was made."""
    await page.get_by_role("button", name="Improve").click()
    await page.wait_for_url("**/refinements/ref_*")
    return await service.get(page.url.rpartition("/")[2], "/request")


async def test_what_is_filled_in_is_submitted_and_can_be_sent_again(
    page: Page, service: RunningService
) -> None:
    await page.goto("/console/new")
    await page.get_by_label("Your text").fill(HOSTILE)
    await page.get_by_label("Criteria", exact=True).select_option("a list")
    await page.get_by_role("button", name="Add criterion").click()
    await page.get_by_label("Name", exact=True).fill("tone")
    await page.get_by_label("Weight").fill("2")
    await page.get_by_label("Strategy", exact=True).select_option("best_of_n")
    await page.get_by_role("button", name="Add validator").click()
    await page.get_by_label("Validator 1", exact=True).select_option("length")
    await page.get_by_label("Max words").fill("120")
    await page.get_by_label("Threshold").fill("0.7")
    await expect(page.get_by_text("Expected:")).to_be_visible()
    assert await violations(page) == []
    await page.emulate_media(color_scheme="dark")
    assert await violations(page) == []
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
    kept = "Object.values(sessionStorage).some((it) => JSON.parse(it).threshold === 0.7)"
    await page.wait_for_function(kept)
    await page.reload()
    request = await submitted(page, service)
    assert request["draft"] == HOSTILE
    assert request["criteria"][0] | {"name": "tone", "weight": 2} == request["criteria"][0]
    assert request["strategy"]["kind"] == "best_of_n"
    assert (
        request["validators"][0] | {"kind": "length", "max_words": 120} == request["validators"][0]
    )
    assert request["threshold"] == 0.7
    await page.goto(f"/console/new?from={page.url.rpartition('/')[2]}")
    await expect(page.get_by_label("Your text")).to_have_value(HOSTILE)
    assert await submitted(page, service) == request


async def test_a_text_of_another_system_keeps_its_line_ends_where_it_is_edited(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(draft="One line.\r\nAnother one.\r\n")
    await page.goto(f"/console/new?from={refinement_id}")
    field = page.get_by_label("Your text")
    await field.press("Control+Home")
    await field.press_sequentially("I: ")
    assert (await submitted(page, service))["draft"] == "I: One line.\r\nAnother one.\r\n"


async def test_a_draft_that_is_an_object_is_edited_as_json_and_its_nulls_stay(
    page: Page, service: RunningService
) -> None:
    draft = {"title": "In order to pay", "note": None}
    schema = {"type": "object", "properties": {"note": {"default": None}}}
    validators = [{"kind": "json_schema", "schema": schema}]
    made = await service.submit(draft=draft, validators=validators)
    await page.goto(f"/console/new?from={made}")
    text = page.get_by_label("Your text")
    await expect(text).to_have_value(json.dumps(draft, indent=2))
    await text.fill('{"title": ')
    await expect(page.get_by_text("This is no JSON object")).to_be_visible()
    await text.fill('{"title": "To pay", "note": null}')
    await expect(page.get_by_text("This is no JSON object")).not_to_be_visible()
    request = await submitted(page, service)
    assert request["draft"] == {"title": "To pay", "note": None}
    assert request["validators"][0]["schema"] == schema


async def test_models_that_can_be_called_are_suggested(page: Page) -> None:
    await page.goto("/console/new")
    suggested = page.locator("#models option")
    await expect(page.locator('#models option[value="offline:editor"]')).to_be_attached()
    names = [await it.get_attribute("value") for it in await suggested.all()]
    assert len(names) == len(set(names)) > 1


async def test_an_error_stands_at_the_field_that_it_is_about(page: Page) -> None:
    await page.goto("/console/new")
    await page.get_by_label("Your text").fill("A text.")
    await page.get_by_label("Max iterations").fill("99")
    await page.get_by_role("button", name="Improve").click()
    wrong = page.get_by_label("Max iterations")
    await expect(wrong).to_have_attribute("aria-invalid", "true")
    await expect(wrong).to_be_focused()
    await expect(page.get_by_role("alert")).to_contain_text("/max_iterations")
    assert await violations(page) == []


async def test_what_a_name_may_have_is_said_at_the_name(page: Page) -> None:
    await page.goto("/console/new")
    await page.get_by_label("Your text").fill("A text.")
    await page.get_by_text("Everything else").click()
    pairs = page.get_by_role("group", name="Metadata")
    await pairs.get_by_role("button", name="Add a pair").click()
    name = pairs.get_by_label("Name 1 of metadata")
    await name.fill("my key")
    await name.press("Tab")
    await page.get_by_role("button", name="Improve").click()
    await expect(pairs.get_by_text("ASCII letters, digits")).to_be_visible()
    await expect(name).to_be_focused()
    assert await violations(page) == []


async def test_copied_code_submits_the_same_request(page: Page, service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/1/revise")
    await page.goto("/console/new")
    await page.get_by_text("As JSON", exact=True).click()
    request = {"draft": HOSTILE, "metadata": {"of": HOSTILE[:30]}, "learn": False}
    await page.get_by_label("Request").fill(json.dumps(request))
    await expect(page.get_by_label("Your text")).to_have_value(HOSTILE)
    expected = None
    for name, command in (("curl", ["bash"]), ("Python", [sys.executable, "-"])):
        await page.get_by_role("button", name=name, exact=True).click()
        code = await page.get_by_label(f"The request in {name}").inner_text()
        assert not set(code) & {"\u202e", "\u2069", "\u200f", "\u2028"}
        await service.erase_unfinished()
        running = subprocess.Popen(  # noqa: ASYNC220
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert running.stdin
        running.stdin.write(code.encode())
        running.stdin.close()
        refinement_id = await first_listed(service)
        running.kill()
        running.wait()
        made = await service.get(refinement_id, "/request")
        assert made["draft"] == HOSTILE
        assert expected in {None, json.dumps(made)}
        expected = json.dumps(made)
    await page.get_by_role("button", name="TypeScript", exact=True).click()
    code = await page.get_by_label("The request in TypeScript").inner_text()
    assert TURNING not in code
    draft = next(it for it in code.splitlines() if it.startswith("const draft = "))
    assert json.loads(draft.removeprefix("const draft = ").removesuffix(";")) == HOSTILE


async def first_listed(service: RunningService) -> str:
    """Return the id of what has been submitted, once there is something."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            page = await service.client.get("/v1/refinements?status=running&status=queued")
            if found := page.json()["data"]:
                return str(found[0]["id"])
            await asyncio.sleep(0.05)


async def test_the_way_back_leads_to_what_was_sent_and_a_new_form_is_empty(
    page: Page, service: RunningService
) -> None:
    await page.goto("/console/new")
    sent = page.get_by_label("Your text")
    await sent.fill("Sent once.")
    await page.get_by_role("button", name="Improve").click()
    await page.wait_for_url("**/refinements/ref_*")
    await page.go_back()
    await expect(sent).to_have_value("Sent once.")
    await page.get_by_role("link", name="Refinements", exact=True).click()
    await page.get_by_role("link", name="New", exact=True).click()
    await expect(sent).to_have_value("")
