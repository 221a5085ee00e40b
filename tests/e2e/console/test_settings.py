"""Figures and settings as people use them: cost, insights, presets, webhooks, keys, audit."""

import csv
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from pydantic import SecretStr

from app.cli.processes import url_of
from tests.e2e.console.conftest import DESKTOP, PHONE, scrolls_sideways, violations
from tests.e2e.console.operated import SETTINGS, operated, spend
from tests.e2e.running_service import RunningService
from tests.e2e.test_reviews import until_asked
from tests.local_endpoint import SECRET

pytestmark = pytest.mark.long


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def signed_in(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[RunningService, Page]]:
    """A service in which something was spent, and a page of its administrator."""
    directory = tmp_path_factory.mktemp("operated")
    async with operated(directory, secret_key=SecretStr(SECRET)) as (service, admin):
        await spend(service)
        context = await browser.new_context(base_url=url_of(service.settings), viewport=DESKTOP)
        page = await context.new_page()
        await page.goto("/console")
        await page.get_by_label("API key").fill(admin.key)
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Your text")).to_be_visible()
        yield service, page
        await context.close()


Opened = tuple[RunningService, Page]


async def downloaded(page: Page) -> list[dict[str, str]]:
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download CSV").click()
    path = await (await downloading.value).path()
    return [*csv.DictReader(path.read_text().splitlines())]


async def test_last_month_s_cost_is_two_clicks_away(signed_in: Opened) -> None:
    service, page = signed_in
    await page.goto("/console")
    await page.get_by_role("link", name="Cost").click()
    await page.get_by_role("button", name="Last month").click()
    last = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    days = {"of": "usage", "from": f"{last.replace(day=1)}", "to": f"{last}"}
    asked = await service.client.get("/v1/statistics", params=days)
    total = asked.json()["total"]["cost_usd"]
    assert total > 30
    await expect(page.get_by_label("Last month")).to_contain_text(f"${total:.2f}")
    await expect(page.get_by_role("img", name="Cost a day")).to_be_visible()
    await page.get_by_role("button", name="Day", exact=True).click()
    await expect(page.locator("tbody tr")).to_have_count(last.day)
    rows = await downloaded(page)
    assert sum(float(it["Cost (USD)"]) for it in rows) == pytest.approx(total)
    await page.reload()
    await expect(page.get_by_label("Last month")).to_contain_text(f"${total:.2f}")


async def test_a_month_in_which_nothing_ended_says_what_counts(signed_in: Opened) -> None:
    _, page = signed_in
    await page.goto("/console/cost?from=2020-01-01&to=2020-01-31")
    await expect(page.get_by_text("Nothing ended in these days.")).to_be_visible()
    assert await violations(page) == []


async def test_a_year_that_is_only_half_typed_draws_no_bar_for_each_of_its_days(
    signed_in: Opened,
) -> None:
    _, page = signed_in
    await page.goto(f"/console/cost?from=1002-01-01&to={datetime.now(UTC).date()}")
    await expect(page.locator("rect.day")).to_have_count(400)


async def test_the_cost_of_a_refinement_leads_to_all_costs_and_to_insights(
    signed_in: Opened,
) -> None:
    service, page = signed_in
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await page.get_by_role("link", name="What raises scores").click()
    await expect(page.locator("tbody tr", has_text="iterative")).to_contain_text("+0.")
    (told,) = await downloaded(page)
    assert float(told["Gain"]) > 0
    await page.go_back()
    await page.get_by_role("link", name="All costs").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Cost")


async def test_a_key_is_made_shown_once_and_revoked(signed_in: Opened) -> None:
    service, page = signed_in
    await page.goto("/console/keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_label("What is it for?").fill("=Help desk")
    await page.get_by_label("Tenant", exact=True).fill("acme")
    assert await violations(page) == []
    await page.get_by_role("button", name="Make the key").click()
    codes = page.get_by_role("status").locator("code")
    await expect(codes.nth(1)).to_be_visible()
    shown = await codes.all_inner_texts()
    headers = {"Authorization": f"Bearer {shown[1]}"}
    assert (await service.client.get("/v1/refinements", headers=headers)).status_code == 200
    row = page.locator("tbody tr", has_text="=Help desk")
    await row.get_by_role("button", name="Revoke").click()
    await page.get_by_role("button", name="Revoke it").click()
    await expect(row).to_contain_text("revoked")
    assert [it["Name"] for it in await downloaded(page)] == ["'=Help desk", "Operator"]
    await page.get_by_role("link", name="What was done with them").click()
    await expect(page.locator("tbody tr", has_text="revoke key")).to_contain_text("=Help desk")


async def test_a_key_is_replaced_by_a_new_one(signed_in: Opened) -> None:
    service, page = signed_in
    made = (await service.client.post("/v1/keys", json={"name": "Old"})).json()
    await page.goto("/console/keys")
    row = page.locator("tbody tr", has_text=made["id"])
    await row.get_by_role("button", name="Rotate").click()
    await page.get_by_label("Hours").fill("0")
    await page.get_by_role("button", name="Make the new key").click()
    await expect(row).to_contain_text("expired")
    await expect(page.locator("tbody tr", has_text="Old")).to_have_count(2)


async def test_quotas_of_a_tenant_are_set_and_shown_beside_its_use(signed_in: Opened) -> None:
    service, page = signed_in
    await service.send("PUT", "/v1/tenants/bounded/quotas", {"queued": 7})
    await page.goto("/console/tenants")
    await page.get_by_role("button", name="Quotas of bounded").click()
    await expect(page.get_by_label("Refinements that wait")).to_have_value("7")
    await page.get_by_label("Dollars a day").fill("2.5")
    await page.get_by_label("Models").fill("offline:editor")
    assert await violations(page) == []
    await page.get_by_role("button", name="Set the quotas").click()
    await expect(page.locator("tbody tr", has_text="bounded")).to_contain_text("of $2.50")
    found = (await service.client.get("/v1/tenants/bounded")).json()["quotas"]
    assert (found["queued"], found["models"]) == (7, ["offline:editor"])


async def test_an_endpoint_is_registered_gets_a_new_secret_and_is_removed(
    signed_in: Opened,
) -> None:
    _, page = signed_in
    await page.goto("/console/webhooks")
    await expect(page.get_by_text("No endpoint is registered.")).to_be_visible()
    await page.get_by_role("button", name="Register an endpoint").click()
    await page.get_by_label("Address").fill("https://example.com/hone")
    await page.get_by_role("button", name="Register it").click()
    shown = page.get_by_role("status").locator("code")
    first = await shown.inner_text()
    await page.get_by_role("button", name="New secret").click()
    await page.get_by_role("button", name="Make a new secret").click()
    await expect(shown).not_to_have_text(first)
    await expect(page.get_by_text("the old secret signs too")).to_be_visible()
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(page.locator("tbody tr")).to_have_count(0)


async def test_a_preset_with_secrets_says_how_it_becomes_the_default(signed_in: Opened) -> None:
    service, page = signed_in
    webhook = {"url": "https://example.com/hook", "headers": {"Authorization": "Bearer 4711"}}
    await service.send("PUT", "/v1/presets/hooked", {"webhook": webhook})
    await page.goto("/console/presets")
    await page.get_by_role("button", name="Use it by default").click()
    await page.get_by_role("button", name="Use them").click()
    await expect(page.get_by_role("alert")).to_contain_text("fill them in again, and save them as")
    await service.send("DELETE", "/v1/presets/hooked")


async def test_a_text_is_refined_with_a_preset_and_the_preset_deleted(signed_in: Opened) -> None:
    service, page = signed_in
    await service.send("PUT", "/v1/presets/support-mail", {"threshold": 0.5})
    await page.goto("/console/presets")
    await expect(page.get_by_text("sets threshold")).to_be_visible()
    await page.get_by_role("link", name="Refine a text with it").click()
    await page.get_by_label("Your text").fill("A text.")
    await page.get_by_role("button", name="Improve").click()
    await page.wait_for_url("**/refinements/ref_*")
    asked = await service.get(page.url.rpartition("/")[2], "/request")
    assert (asked["preset"], asked["threshold"]) == ("support-mail", 0.5)
    await page.goto("/console/presets")
    await page.get_by_role("button", name="Delete support-mail").click()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page.get_by_text("There are no presets.")).to_be_visible()


@pytest.mark.parametrize("place", SETTINGS)
async def test_every_page_fits_a_phone_and_is_accessible(signed_in: Opened, place: str) -> None:
    _, page = signed_in
    for size, scheme in ((PHONE, "light"), (DESKTOP, "dark")):
        await page.set_viewport_size(size)
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        await page.goto(f"/console/{place}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("Loading")).to_have_count(0)
        assert not await scrolls_sideways(page)
        assert await violations(page) == []


@pytest.mark.parametrize("place", ["keys", "tenants", "audit"])
async def test_without_the_scope_a_page_says_what_it_is_for_and_how_to_see_it(
    page: Page, place: str
) -> None:
    await page.goto(f"/console/{place}")
    await expect(page.get_by_text("This page is for administrators.")).to_be_visible()
    await expect(page.locator(".empty")).to_contain_text("hone keys create --admin")
    assert await violations(page) == []


async def test_a_review_says_for_whom_it_is(signed_in: Opened) -> None:
    service, page = signed_in
    made = (await service.client.post("/v1/keys", json={"name": "Help desk"})).json()
    for key, said in ((made["key"], "for Help desk"), (None, "for you")):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        request = {"task": "Explain.", "review": {"when": "each_iteration"}}
        answer = await service.client.post("/v1/refinements", json=request, headers=headers)
        refinement_id = answer.json()["id"]
        await until_asked(service, refinement_id, "iterations/1/review")
        await page.goto(f"/console/reviews/{refinement_id}")
        await expect(page.locator(".why")).to_contain_text(said)
        assert (await service.get(refinement_id))["submitted_by"].startswith("key_")
