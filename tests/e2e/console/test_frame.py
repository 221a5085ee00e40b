"""Coming in: the list, one refinement as it goes on, keys, read links."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from app.access.keyring import Keyring
from app.cli.processes import url_of
from app.contract.access import OPERATOR, KeyRequest
from app.queue import RefinementQueue
from app.store import open_store
from benchmarks.model_replies import draft
from tests.e2e.console.conftest import PHONE, scrolls_sideways, titled, violations
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import slow_at
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long


async def test_a_refinement_is_followed_from_the_list_to_its_result(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = slow_at("iterations/2/critique", 1)
    refinement_id = await service.submit()
    await page.goto("/console/refinements")
    row = page.locator("tbody tr", has_text=refinement_id)
    await expect(row).to_be_visible()
    assert await violations(page) == []
    await row.get_by_role("link", name="Explain refunds.").click()
    await expect(page.get_by_text(draft(4))).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("passed")
    assert await violations(page) == []
    await page.go_back()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Refinements")


async def test_a_server_without_keys_says_so_and_louder_where_it_has_another_name(
    page: Page, service: RunningService
) -> None:
    async def forward(route: Route) -> None:  # as a proxy that shows nothing of itself
        await route.fulfill(
            response=await route.fetch(url=route.request.url.replace("http://hone.test", here))
        )

    here = url_of(service.settings)
    told = page.get_by_text("This server has no API keys")
    await page.goto("/console/refinements")
    await expect(told).to_contain_text("nothing may stand before it")
    assert await violations(page) == []
    await page.route("http://hone.test/**", forward)
    await page.goto("http://hone.test/console")
    await expect(page.get_by_role("alert").and_(told)).to_contain_text("is reached as hone.test")
    await expect(told).to_contain_text("hone keys create --admin")
    await page.goto("/console/refinements")
    await page.unroute_all(behavior="ignoreErrors")


async def test_a_phone_shows_everything_without_scrolling_sideways(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    await page.set_viewport_size(PHONE)
    for path in ("/console", f"/console/refinements/{refinement_id}"):
        await page.goto(path)
        await expect(page.get_by_text(refinement_id)).to_be_visible()
        assert not await scrolls_sideways(page)


async def test_a_read_link_shows_no_request_and_a_part_of_one_says_so(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    made = await service.client.post(f"/v1/refinements/{refinement_id}/tokens")
    token = made.json()["token"]
    address = f"/console/refinements/{refinement_id}"
    heading = page.get_by_role("heading", level=1)
    for part in ("%00", "", token[:20], f"{token}%20"):
        async with page.expect_event("load"):  # another fragment alone loads the page again
            await page.goto(f"{address}#token={part}")
        await expect(heading).to_have_text("The link is not complete")
    assert await violations(page) == []
    await page.goto(f"{address}#token={token}")
    await expect(heading).to_contain_text("passed")
    await expect(page.get_by_role("link", name="Events")).to_be_visible()
    await expect(page.get_by_role("link", name="Request")).to_have_count(0)
    await page.goto(f"{address}/request#token={token}")
    await expect(page.get_by_text("A read link does not show the request")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/refinements/%E0%A4%A", "Nothing here"),
        ("/refinements/..%2Fkeys", "Nothing here"),
        ("/refinements/ref_1%3Fwait=9", "Nothing here"),
        ("/refinements?submitted_from=x", "Refinements"),
    ],
)
async def test_an_address_that_means_nothing_breaks_no_page(
    page: Page, address: str, said: str
) -> None:
    await page.goto(f"/console{address}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(said)


@pytest.mark.parametrize(("place", "kind"), [("refinements", "refinement"), ("batches", "batch")])
async def test_what_is_no_id_and_what_is_not_there_are_told_apart(
    page: Page, place: str, kind: str
) -> None:
    prefix = kind.replace("refinement", "ref")
    heading = page.get_by_role("heading", level=1)
    for word in ("nope", "\u202enope"):
        await page.goto(f"/console/{place}/{word}")
        await expect(heading).to_have_text("Nothing here")
        shown = word.replace("\u202e", "[U+202E]")
        told = f"“{shown}” is no id of a {kind}: one is {prefix}_ and 26 digits or letters."
        await expect(page.get_by_role("alert")).to_contain_text(told)
        assert await violations(page) == []
    unknown = f"{prefix}_{26 * '0'}"
    await page.goto(f"/console/{place}/{unknown}")
    await expect(heading).to_have_text(unknown)
    await expect(page.get_by_role("alert")).to_be_visible()
    assert await violations(page) == []


async def test_an_id_in_the_wrong_place_leads_to_what_it_names(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit()
    await page.goto(f"/console/batches/{refinement_id}")
    await expect(page.get_by_role("alert")).to_contain_text("is no id of a batch")
    await page.get_by_role("link", name=refinement_id).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(refinement_id)


@dataclass(frozen=True)
class GuardedService:
    """A service that asks for keys and has no worker, what issues keys, and a refinement in it."""

    running: RunningService
    keyring: Keyring
    refinement_id: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GuardedService]:
    """One for all tests of sessions: they leave its API running."""
    async with (
        running_service(tmp_path_factory.mktemp("guarded"), workers=0) as service,
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        keyring = Keyring(store.access, service.settings)
        refinement_id = await service.submit()
        await keyring.create(OPERATOR, KeyRequest())
        await until_refused(service, {})  # the API has noticed the first key
        yield GuardedService(service, keyring, refinement_id)


async def test_a_person_signs_in_with_a_key_that_no_script_can_read(
    browser: Browser, guarded: GuardedService
) -> None:
    service, keyring, refinement_id = guarded.running, guarded.keyring, guarded.refinement_id
    issued = await keyring.create(OPERATOR, KeyRequest())
    context = await browser.new_context(base_url=url_of(service.settings))
    page = await context.new_page()
    await page.goto(f"/console/refinements/{refinement_id}")
    await page.get_by_label("API key").fill("hone_wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    assert await violations(page) == []
    await page.get_by_label("API key").fill(issued.key)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(refinement_id)
    assert await page.evaluate("document.cookie") == ""
    (cookie,) = await context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert issued.key not in cookie["value"]

    headers = {"Authorization": f"Bearer {issued.key}"}
    reading = await service.client.post(f"/v1/refinements/{refinement_id}/tokens", headers=headers)
    other = await browser.new_context(base_url=url_of(service.settings))
    reader = await other.new_page()
    await reader.goto(f"/console/refinements/{refinement_id}#token={reading.json()['token']}")
    await expect(reader.get_by_role("heading", level=1)).to_contain_text(refinement_id)

    foreign = {"Cookie": f"{cookie['name']}={cookie['value']}", "Hone-Session": issued.id}
    path = f"/v1/refinements/{refinement_id}/cancel"
    assert await status_of(service, path, foreign) == 403
    assert await status_of(service, path, foreign | {"Sec-Fetch-Site": "same-site"}) == 403
    assert await status_of(service, path, foreign | {"Sec-Fetch-Site": "same-origin"}) == 202
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    await keyring.revoke(OPERATOR, issued.id)
    await until_refused(service, foreign | {"Sec-Fetch-Site": "same-origin"})
    await context.close()
    await other.close()


async def test_nothing_typed_is_lost_when_the_session_ends_or_the_server_restarts(
    browser: Browser, guarded: GuardedService
) -> None:
    service, keyring = guarded.running, guarded.keyring
    first, second = [await keyring.create(OPERATOR, KeyRequest()) for _ in range(2)]
    context = await browser.new_context(base_url=url_of(service.settings))
    page = await context.new_page()
    await page.goto("/console/new")
    await page.get_by_label("API key").fill(first.key)
    await page.keyboard.press("Enter")
    async with page.expect_response("**/v1/estimates", timeout=1_000 * TIMEOUT_S):
        await page.get_by_label("Your text").fill("Keep me.")
    await keyring.revoke(OPERATOR, first.id)
    await until_refused(service, {"Authorization": f"Bearer {first.key}"})
    await page.get_by_role("button", name="Improve").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in again")
    await expect(page).to_have_title(titled("Sign in again"))
    assert await violations(page) == []
    await page.get_by_label("API key").fill(second.key)
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Your text")).to_have_value("Keep me.")
    await expect(page).to_have_title(titled("New refinement"))
    await page.get_by_role("button", name="Improve").click()
    await page.wait_for_url("**/refinements/ref_*")
    refinement_id = page.url.rpartition("/")[2]
    await expect(page.get_by_role("heading", level=1)).to_contain_text("queued")

    service.processes[-1].terminate()
    service.processes[-1].wait(TIMEOUT_S)
    away = page.get_by_text("The server does not answer.")
    await expect(away).to_be_visible()
    service.start("app.cli", "api")
    await expect(away).to_be_hidden()
    headers = {"Authorization": f"Bearer {second.key}"}
    await status_of(service, f"/v1/refinements/{refinement_id}/cancel", headers)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("canceled")
    await context.close()


async def status_of(service: RunningService, path: str, headers: dict[str, str]) -> int:
    return (await service.client.post(path, headers=headers)).status_code


async def until_refused(service: RunningService, headers: dict[str, str]) -> None:
    """Return once a session does not let in any more, which takes less than a second."""
    async with asyncio.timeout(TIMEOUT_S):
        while (await service.client.get("/console/session", headers=headers)).is_success:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
