"""Makes the pictures of docs/console.md: `python -m tests.e2e.console.screenshots [NAME...]`.

A picture has a palette, which makes it smaller. `--pages FOLDER` makes one of every page instead,
in light and dark colours and as wide as a phone.
"""

import asyncio
import shutil
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import FloatRect, Locator, Page, ViewportSize, async_playwright, expect
from pydantic import SecretStr

from app.cli.processes import url_of
from tests.e2e.conftest import FLAGS, NAMES
from tests.e2e.console.conftest import DESKTOP
from tests.e2e.console.operated import SETTINGS, operated, spend
from tests.e2e.running_service import RunningService, running_service
from tests.local_endpoint import SECRET

FOLDER = Path(__file__).parents[3] / "docs" / "console"
COLOURS = 64
LOOKS: dict[str, tuple[ViewportSize, Literal["light", "dark"]]] = {
    "light": (DESKTOP, "light"),
    "dark": (DESKTOP, "dark"),
    "phone": (ViewportSize(width=390, height=844), "light"),
}
SIZE = ViewportSize(width=860, height=800)
WIDE = ViewportSize(width=1080, height=800)
LETTER = (
    "Dear customer, in order to utilize the refund procedure, it is necessary that the form is"
    " completed. Due to the fact that there are a number of cases, the processing may possibly take"
    " some time. We are of the opinion that seven days are sufficient. Do not hesitate to ask us."
)

TEXTS = {
    "Answer to ticket 4710": LETTER,
    "Notice of maintenance": "The site is is down on Monday, due to the fact that it is updated.",
    "Welcome mail": "In order to begin, open the page. It is definately easy to use.",
}


async def edited(service: RunningService, **fields: Any) -> str:
    """Return a letter that the offline editor has edited."""
    request = {
        "draft": LETTER,
        "models": {"generator": "offline:editor", "critic": "offline:editor"},
        "criteria": [{"name": "clarity", "weight": 2}, {"name": "conciseness"}],
        "metadata": {"title": "Letter about refunds", "ticket": "4711"},
        "threshold": 0.98,
    }
    return await service.submit(**request | {"task": None} | fields)


async def result(page: Page, service: RunningService) -> None:
    """The letter before and after, with the reason of a change."""
    refinement_id = await edited(service)
    await service.ended(refinement_id)
    await page.set_viewport_size(WIDE)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.locator("[data-change]").first).to_be_visible()
    await page.keyboard.press("n")
    await expect(page.locator(".card")).to_be_visible()


async def review(page: Page, service: RunningService) -> None:
    """The inbox: a letter under review, with a remark on a passage."""
    await service.erase_unfinished()
    review = {"when": "before_completion"}
    for title in ("Letter about refunds", "Answer to ticket 4712", "Notice of maintenance"):
        await edited(service, review=review, metadata={"title": title})
    await page.set_viewport_size(WIDE)
    await page.goto("/console/reviews")
    await expect(page.locator("pre.draft ins").first).to_be_visible()
    await expect(page.get_by_text("1 of 3")).to_be_visible()
    await page.get_by_label("Passage").fill("seven days are sufficient")
    await page.get_by_label("Remark on it").fill("Say: it takes seven days.")
    await page.get_by_role("button", name="Add the remark").click()


async def drafts(page: Page, service: RunningService) -> None:
    """What changed between two drafts, and the problems in the text."""
    refinement_id = await edited(service)
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}/drafts")
    await expect(page.locator("ins").first).to_be_visible()


async def refinements(page: Page, service: RunningService) -> None:
    """The list, with a review that waits."""
    for number, (title, text) in enumerate(TEXTS.items()):
        fields = {"metadata": {"title": title, "ticket": f"471{number}"}, "draft": text}
        await service.ended(await edited(service, threshold=0.9, **fields))
    await edited(service, review={"when": "before_completion"})
    await page.goto("/console/refinements")
    await expect(page.get_by_role("heading", name="Waiting for your review")).to_be_visible()
    await expect(page.get_by_role("link", name="ticket=4711").first).to_be_visible()


async def new(page: Page, service: RunningService) -> None:
    """Home, as a text is pasted on a phone in the dark."""
    await page.set_viewport_size(ViewportSize(width=390, height=800))
    await page.emulate_media(color_scheme="dark")
    await page.goto("/console")
    await page.get_by_label("Your text").fill(LETTER)
    await page.get_by_label("What should be better?").fill("Shorter and friendlier.")
    await expect(page.get_by_text("Expected:")).to_be_visible()


async def cost(page: Page, service: RunningService) -> None:
    """What the last month cost."""
    await spend(service)
    await page.set_viewport_size(WIDE)
    await page.goto("/console/cost")
    await page.get_by_role("button", name="Last month").click()
    await expect(page.get_by_label("Last month")).to_be_visible()
    await expect(page.get_by_role("button", name="Download CSV")).to_be_visible()


PICTURES: dict[str, Callable[[Page, RunningService], Awaitable[Locator | None]]] = {
    "cost": cost,
    "drafts": drafts,
    "new": new,
    "refinements": refinements,
    "result": result,
    "review": review,
}


def with_palette(png: bytes) -> bytes:
    """Return a picture with its most frequent colours; each other one becomes the nearest."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    channels = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    rows = _unfiltered(zlib.decompress(data), width * channels, channels)
    pixels = [row[at : at + 3] for row in rows for at in range(0, len(row), channels)]
    counts = Counter(pixels)
    palette = [colour for colour, _ in counts.most_common(COLOURS)]

    def nearest(colour: bytes) -> int:
        return min(
            range(len(palette)),
            key=lambda it: sum((a - b) ** 2 for a, b in zip(palette[it], colour, strict=True)),
        )

    index = {colour: nearest(colour) for colour in counts}
    drawn = bytes(index[it] for it in pixels)
    lines = b"".join(b"\0" + drawn[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = {
        b"IHDR": head,
        b"PLTE": b"".join(palette),
        b"IDAT": zlib.compress(lines, 9),
        b"IEND": b"",
    }
    return png[:8] + b"".join(
        struct.pack(">I", len(it)) + name + it + struct.pack(">I", zlib.crc32(name + it))
        for name, it in parts.items()
    )


def _unfiltered(data: bytes, stride: int, size: int) -> list[bytes]:
    """Return the rows of a PNG without their filters (ISO/IEC 15948, 9.2)."""
    rows = [bytes(stride)]
    for start in range(0, len(data), stride + 1):
        kind, row, above = data[start], bytearray(data[start + 1 : start + 1 + stride]), rows[-1]
        for at in range(stride if kind else 0):
            left, up, corner = (
                (row[at - size], above[at], above[at - size]) if at >= size else (0, above[at], 0)
            )
            row[at] = (
                row[at] + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]
            ) % 256
        rows.append(bytes(row))
    return rows[1:]


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda it: abs(guess - it))


async def every_page(folder: Path) -> None:
    """Make a picture of every page in light and dark colours and as wide as a phone."""
    executable = next(filter(None, map(shutil.which, NAMES)))
    with tempfile.TemporaryDirectory() as data:
        async with (
            operated(Path(data), secret_key=SecretStr(SECRET)) as (service, admin),
            async_playwright() as playwright,
        ):
            pages = await filled(service)
            browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
            for look, (size, scheme) in LOOKS.items():
                context = await browser.new_context(
                    base_url=url_of(service.settings),
                    viewport=size,
                    color_scheme=scheme,
                    reduced_motion="reduce",
                )
                page = await context.new_page()
                await page.goto("/console")
                await page.screenshot(path=folder / f"sign-in-{look}.png")
                await page.get_by_label("API key").fill(admin.key)
                await page.keyboard.press("Enter")
                await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
                for name, address in pages.items():
                    await page.goto(address)
                    await expect(page.locator("h1").first).to_be_visible()
                    await expect(page.get_by_text("Loading")).to_have_count(0)
                    await page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)
                await context.close()
            await browser.close()


async def filled(service: RunningService) -> dict[str, str]:
    """Fill a service with what its pages show; return the address of each."""
    await spend(service)
    await service.send("PUT", "/v1/presets/support-mail", {"threshold": 0.9, "max_iterations": 4})
    await service.send("POST", "/v1/endpoints", {"url": "https://example.com/hone"})
    await service.send("POST", "/v1/keys", {"tenant": "acme", "name": "Help desk"})
    await service.send("PUT", "/v1/tenants/acme/quotas", {"tokens_per_day": 1_000_000})
    refinement_id = await edited(service)
    for title, text in TEXTS.items():
        await service.ended(await edited(service, draft=text, metadata={"title": title}))
    await edited(service, review={"when": "before_completion"})
    await service.ended(refinement_id)
    places = ("refinements", "reviews", "batches", *SETTINGS)
    pages = {place: f"/console/{place}" for place in places}
    one = f"/console/refinements/{refinement_id}"
    parts = {f"refinement-{it}": f"{one}/{it}" for it in ("overview", "drafts", "steps", "request")}
    return {"home": "/console", **pages, **parts}


async def main(names: list[str]) -> None:
    """Make these pictures, or all."""
    executable = next(filter(None, map(shutil.which, NAMES)))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
            for name in names or PICTURES:
                page = await browser.new_page(base_url=url_of(service.settings), viewport=SIZE)
                await page.emulate_media(reduced_motion="reduce")
                part = await PICTURES[name](page, service)
                path = FOLDER / f"{name}.png"
                if part:
                    await part.screenshot(path=path)
                else:
                    width = (page.viewport_size or SIZE)["width"]
                    clip = FloatRect(x=0, y=0, width=width, height=1300)
                    await page.screenshot(path=path, full_page=True, clip=clip)
                await page.close()
                path.write_bytes(with_palette(path.read_bytes()))
            await browser.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pages"]:
        asyncio.run(every_page(Path(sys.argv[2])))
    else:
        asyncio.run(main(sys.argv[1:]))
