"""What a page shows comes right by itself, whatever became of the API or of a request meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from app.cli.processes import url_of
from benchmarks.model_replies import improving, refusal
from tests.e2e.conftest import FLAGS, chromium
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import answering, slow_at
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mortal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningService]:
    """A service whose API the tests end and start."""
    async with running_service(tmp_path_factory.mktemp("mortal")) as service:
        yield service


async def submitted(service: RunningService, status: str) -> str:
    """Submit a refinement that comes to a status, and on from there when it is asked to."""
    if status == "paused":
        return await service.submit(review={"when": "each_iteration"})
    if status == "running":
        service.models.behaviour = slow_at("iterations/2/revise", 3.0)
        return await service.submit()
    service.models.behaviour = answering(
        lambda key, _: refusal(400, "No.") if key == "iterations/2/revise" else None
    )
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    service.models.behaviour = improving
    return refinement_id


NEXT = {"paused": ("/reviews", {"action": "approve"}), "failed": ("/retry", {})}


@pytest.mark.parametrize("status", ["paused", "running", "failed"])
async def test_a_page_goes_on_after_a_restart_of_the_api(
    browser: Browser, mortal: RunningService, status: str
) -> None:
    mortal.models.behaviour = improving
    refinement_id = await submitted(mortal, status)
    context = await browser.new_context(base_url=url_of(mortal.settings))
    page = await context.new_page()
    await page.goto(f"/console/refinements/{refinement_id}")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_contain_text(status)
    api = mortal.processes[0]
    api.kill()
    api.wait(TIMEOUT_S)
    away = page.get_by_text("The server does not answer.")
    await expect(away).to_be_visible()
    mortal.processes[0] = mortal.start("app.cli", "api")
    await expect(away).to_be_hidden()
    if status in NEXT:
        path, body = NEXT[status]
        answer = await mortal.client.post(f"/v1/refinements/{refinement_id}{path}", json=body)
        assert answer.is_success, answer.text
    await expect(heading).to_contain_text("best effort" if status == "paused" else "passed")
    await expect(page.get_by_role("alert")).to_have_count(0)
    await context.close()


class Refusing:
    """Answers the first requests with a defect, and lets the others through."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def __call__(self, route: Route) -> None:
        self.left -= 1
        if self.left < 0:
            await route.continue_()
        else:
            await route.fulfill(status=500, json={"title": "Internal server error"})


async def test_a_read_that_failed_is_repeated_and_what_it_returns_is_shown(
    browser: Browser, service: RunningService
) -> None:
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    context = await browser.new_context(base_url=url_of(service.settings))
    page = await context.new_page()
    path = f"/console/refinements/{refinement_id}"
    for of, tab in (("", path), ("/iterations?excerpts=true", f"{path}/drafts")):
        refusing = Refusing(4)
        await page.route(f"**/v1/refinements/{refinement_id}{of}", refusing)
        await page.goto(tab)
        failed = page.get_by_role("alert").filter(has_text="Internal server error")
        await expect(failed).to_be_visible()
        await expect(failed).to_have_count(0)
        assert refusing.left < 0
        await expect(page.get_by_role("heading", level=1)).to_contain_text("passed")
    await expect(page.get_by_label("Difference from")).to_be_visible()
    await context.close()


async def test_the_end_is_shown_though_the_requests_at_the_end_failed(
    browser: Browser, service: RunningService
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    context = await browser.new_context(base_url=url_of(service.settings))
    page = await context.new_page()
    await page.goto(f"/console/refinements/{refinement_id}")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_contain_text("paused")
    await page.route(f"**/v1/refinements/{refinement_id}", Refusing(5))
    await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", {"action": "approve"})
    await expect(heading).to_contain_text("best effort")
    await expect(page.get_by_role("alert")).to_have_count(0)
    await context.close()


async def test_an_answer_that_comes_late_replaces_no_newer_one(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    async with asyncio.timeout(TIMEOUT_S):
        while (await service.get(refinement_id))["status"] != "paused":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    asked, released = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if asked.is_set():
            await route.continue_()
            return
        response = await route.fetch()
        asked.set()
        await released.wait()
        await route.fulfill(response=response)

    await page.route(f"**/v1/refinements/{refinement_id}", hold)
    await page.goto(f"/console/refinements/{refinement_id}")
    await asked.wait()
    await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", {"action": "approve"})
    await service.ended(refinement_id)
    await page.wait_for_timeout(1_000)  # until the page has read again, if it does not wait
    released.set()
    await page.wait_for_timeout(500)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("best effort")


@asynccontextmanager
async def page_of_keeping_browser(service: RunningService) -> AsyncIterator[Page]:
    """A page in a browser that keeps pages as they are for the way back."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(),
            args=FLAGS,
            ignore_default_args=["--disable-back-forward-cache"],
        )
        page = await browser.new_page(base_url=url_of(service.settings))
        yield page
        await browser.close()


async def keep(route: Route) -> None:
    """Let the browser keep a page, as those do that go by no `no-store` for the way back."""
    response = await route.fetch()
    await route.fulfill(
        response=response, headers={**response.headers, "cache-control": "no-cache"}
    )


async def test_a_page_to_which_one_comes_back_goes_on(service: RunningService) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    async with page_of_keeping_browser(service) as page:
        await page.route("**/console/refinements/*", keep)
        await page.goto(f"/console/refinements/{refinement_id}")
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_contain_text("paused")
        await page.evaluate("addEventListener('pageshow', (it) => { window.kept = it.persisted })")
        await page.goto("/docs")
        path = f"/v1/refinements/{refinement_id}/reviews"
        await service.send("POST", path, {"action": "approve"})
        await service.ended(refinement_id)
        await page.go_back(wait_until="commit")
        assert await page.evaluate("window.kept")
        await expect(heading).to_contain_text("best effort")
