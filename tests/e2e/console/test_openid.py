"""People sign in at an OpenID provider, and out again."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from pydantic import SecretStr

from app.local.embedded import EmbeddedRedis
from app.settings import Settings
from tests.api.conftest import running
from tests.e2e.console.conftest import violations
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, openid_provider

pytestmark = pytest.mark.long


async def test_a_person_signs_in_elsewhere_sees_the_page_and_signs_out(
    browser: Browser, tmp_path: Path
) -> None:
    async with openid_provider() as provider:
        with EmbeddedRedis(tmp_path) as redis:
            settings = Settings(
                redis_url=redis.url,
                port=0,
                oidc_issuer=provider.issuer,
                oidc_client_id=CLIENT_ID,
                oidc_client_secret=SecretStr(CLIENT_SECRET),
                oidc_groups="editors=acme:submit,read",
            )
            with running(settings) as url:
                page = await browser.new_page(base_url=url)
                await page.goto("/console/refinements?outcome=passed")
                enter = page.get_by_role("link", name="Sign in with 127.0.0.1")
                await enter.click()
                await expect(page.get_by_role("alert")).to_contain_text("You are in no group")
                assert await violations(page) == []
                provider.person["groups"] = ["editors"]
                await page.get_by_role("link", name="Back to the console").click()
                await expect(enter).to_be_visible()
                assert await violations(page) == []
                await page.goto("/console/refinements?outcome=passed")
                await enter.click()
                await expect(page.get_by_role("banner")).to_contain_text("acme ann@example.com")
                assert page.url == f"{url}/console/refinements?outcome=passed"
                (cookie,) = await page.context.cookies()
                assert (cookie["name"], cookie["sameSite"]) == ("hone_session", "Strict")
                await page.get_by_role("button", name="Sign out").click()
                await expect(enter).to_be_visible()
                await page.close()
