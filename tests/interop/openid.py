"""npm's oidc-provider, which OpenID has certified: people sign in at it in a browser."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from playwright.async_api import Page, async_playwright, expect
from pydantic import SecretStr

from app.cli.processes import free_port
from app.local.embedded import EmbeddedRedis
from app.settings import Settings
from benchmarks.environments import CannotInstall, node_modules_with
from tests.api.conftest import running
from tests.e2e.conftest import FLAGS, NAMES
from tests.interop.object_stores import started
from tests.waiting import TIMEOUT_S

PACKAGES = ("oidc-provider@9",)
PROGRAM = Path(__file__).with_name("openid.mjs")


@asynccontextmanager
async def provider(folder: Path, port: int, callback: str, secret: str) -> AsyncIterator[None]:
    """Run the provider, which knows one client."""
    modules = await asyncio.to_thread(node_modules_with, "openid", *PACKAGES)
    command = ["node", str(PROGRAM), str(modules), str(port), callback, secret]
    process = started(command, folder / "provider.log")
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client, asyncio.timeout(TIMEOUT_S):
            while process.poll() is None:
                try:
                    await client.get(f"http://127.0.0.1:{port}/.well-known/openid-configuration")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


async def play(folder: Path) -> bool:
    """Sign in as somebody who may and as somebody who may not; print one line."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        raise CannotInstall("there is no Chromium")
    port, secret = free_port("127.0.0.1"), secrets.token_urlsafe(16)
    with EmbeddedRedis(folder) as redis:
        settings = Settings(
            redis_url=redis.url,
            port=free_port("127.0.0.1"),
            oidc_issuer=f"http://127.0.0.1:{port}",
            oidc_client_id="hone",
            oidc_client_secret=SecretStr(secret),
            oidc_groups="editors=acme:submit,read",
        )
        with running(settings) as url:
            async with provider(folder, port, f"{url}/console/oidc/callback", secret):
                await _sign_in_as_both(executable, url)
    print("oidc-provider: one who may was let in, one in no group was not")
    return True


async def _sign_in_as_both(executable: str, url: str) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
        for name in ("ann", "bob"):
            page = await browser.new_page(base_url=url)
            await _sign_in(page, name)
            if name == "ann":
                await expect(page.get_by_role("banner")).to_contain_text("acme ann@example.com")
                assert page.url.endswith("/console/refinements?outcome=passed")
            else:
                await expect(page.get_by_role("alert")).to_contain_text("You are in no group")
            await page.close()
        await browser.close()


async def _sign_in(page: Page, name: str) -> None:
    await page.goto("/console/refinements?outcome=passed")
    await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    await page.locator("[name=login]").fill(name)
    await page.locator("[name=password]").fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()
