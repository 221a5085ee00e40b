"""The list and its filters, what waits on top, and batches."""

import re
from asyncio import Event
from json import dumps

import pytest
from playwright.async_api import Browser, Page, Route, expect

from app.cli.processes import url_of
from benchmarks.model_replies import improving
from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at

JSON_LINES = {"Content-Type": "application/jsonl"}
TOO_WIDE = """[...document.querySelectorAll("table.rows td")].filter((cell) => {
    const content = document.createRange();
    content.selectNodeContents(cell);
    return content.getBoundingClientRect().right > cell.getBoundingClientRect().right;
}).map((cell) => cell.textContent)"""


async def test_filters_stand_in_the_address_and_hold_after_a_reload(
    page: Page, service: RunningService
) -> None:
    ended = await service.submit(metadata={"ticket": "is listed"})
    await service.ended(ended)
    service.models.behaviour = hanging_at("iterations/1/critique")
    running = await service.submit(metadata={"ticket": "is listed"})
    await page.goto("/console/refinements")
    await page.get_by_text("Filters").click()
    await page.get_by_label("Metadata").fill("ticket=is listed")
    await page.keyboard.press("Enter")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(2)
    await page.get_by_label("running", exact=True).check()
    await expect(rows).to_have_count(1)
    await page.reload()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(running)
    await expect(rows).to_contain_text("Explain refunds.")
    assert "status=running" in page.url
    assert await violations(page) == []
    await page.emulate_media(color_scheme="dark")
    assert await violations(page) == []
    service.models.behaviour = improving
    await page.get_by_label("Search").fill(f"see {service.settings.port}/{ended}?x")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(ended)


async def test_times_of_filters_are_the_same_in_another_time_zone(
    browser: Browser, service: RunningService
) -> None:
    async def opened(zone: str, address: str) -> Page:
        context = await browser.new_context(timezone_id=zone, base_url=url_of(service.settings))
        page = await context.new_page()
        await page.goto(address)
        return page

    page = await opened("Asia/Tokyo", "/console/refinements")
    await page.get_by_text("Filters").click()
    begins = page.get_by_label("Submitted from")
    await begins.fill("2026-01-02T03:04")
    await begins.press("Enter")
    await page.wait_for_url("**submitted_from=*")
    await expect(begins).to_have_value("2026-01-02T03:04")
    assert "submitted_from=2026-01-01T18%3A04%3A00.000Z" in page.url
    other = await opened("America/New_York", page.url)
    await expect(other.get_by_label("Submitted from")).to_have_value("2026-01-01T13:04")
    for each in (page, other):
        await each.context.close()


async def test_what_is_typed_into_a_filter_stays_when_the_list_is_drawn_again(
    page: Page, service: RunningService
) -> None:
    held = Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/v1/strategies", hold)
    await page.goto("/console/refinements")
    await page.get_by_text("Filters").click()
    pairs = page.get_by_label("Metadata")
    await pairs.fill("ticket=none")
    held.set()
    await expect(page.get_by_label("Strategy").locator("option")).not_to_have_count(1)
    await expect(pairs).to_have_value("ticket=none")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No refinement is like that.")).to_be_visible()


async def test_a_screen_of_rows_is_read_before_anything_else(
    page: Page, service: RunningService
) -> None:
    await service.ended(await service.submit(max_iterations=1))
    asked: list[str] = []
    page.on("request", lambda it: asked.append(it.url))
    async with page.expect_request("**/v1/refinements?limit=25*"):
        await page.goto("/console/refinements")
    read = [it for it in asked if "/v1/" in it or "/readyz" in it]
    assert "limit=5" in read[0]
    await expect(page.locator("tbody tr").first).to_be_visible()


async def test_a_review_that_waits_stands_on_top(page: Page, service: RunningService) -> None:
    await page.set_viewport_size(PHONE)
    await page.goto("/console/refinements")
    task = "Explain to customers who have waited for three weeks when their refund will come."
    await service.submit(task=task, review={"when": "each_iteration"})
    heading = page.get_by_role("heading", name="Waiting for your review: 1")
    await expect(heading).to_be_visible()
    assert not await scrolls_sideways(page)
    assert await violations(page) == []


@pytest.mark.parametrize(
    ("place", "wide"), [("refinements", "text=unknown cost"), ("batches", "progress")]
)
async def test_no_cell_of_a_list_runs_into_the_next(
    page: Page, service: RunningService, place: str, wide: str
) -> None:
    await service.ended(await service.submit(max_iterations=1))
    line = dumps({"custom_id": "1", "request": {"task": "Explain."}})
    await service.client.post("/v1/batches", content=line, headers=JSON_LINES)
    await page.goto(f"/console/{place}")
    await expect(page.locator(wide).first).to_be_visible()
    assert await page.evaluate(TOO_WIDE) == []


async def test_a_batch_shows_its_progress_and_ends(page: Page, service: RunningService) -> None:
    lines = (dumps({"custom_id": f"{n}", "request": {"task": "Explain."}}) for n in range(3))
    made = await service.client.post("/v1/batches", content="\n".join(lines), headers=JSON_LINES)
    assert made.status_code == 202, made.text
    await page.goto("/console/batches")
    await page.get_by_role("link", name=made.json()["id"]).click()
    await expect(page.locator("main")).to_contain_text(re.compile("3 of 3.*3 (passed|best effort)"))
    assert await violations(page) == []
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download results").click()
    path = await (await downloading.value).path()
    assert len(path.read_text().splitlines()) == 3
    await page.get_by_role("link", name="Its refinements").click()
    await expect(page.locator("tbody tr")).to_have_count(3)
    listed = await service.client.get("/v1/refinements", params={"batch": made.json()["id"]})
    await service.send("DELETE", f"/v1/refinements/{listed.json()['data'][0]['id']}")
    await page.goto(f"/console/batches/{made.json()['id']}")
    await expect(page.locator("main")).to_contain_text(re.compile("3 of 3.*1 erased"))
