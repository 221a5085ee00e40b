"""Makes the pictures of docs/console.md: `python -m tests.e2e.console.screenshots [NAME...]`.

A picture has a palette, which makes it smaller.
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

from playwright.async_api import FloatRect, Locator, Page, ViewportSize, async_playwright, expect

from app.cli.processes import url_of
from tests.e2e.conftest import FLAGS, NAMES
from tests.e2e.running_service import RunningService, running_service

FOLDER = Path(__file__).parents[3] / "docs" / "console"
COLOURS = 64
SIZE = ViewportSize(width=860, height=800)
LETTER = (
    "Dear customer, in order to utilize the refund procedure, it is necessary that the form is"
    " completed. Due to the fact that there are a number of cases, the processing may possibly take"
    " some time. We are of the opinion that seven days are sufficient. Do not hesitate to ask us."
)


async def overview(page: Page, service: RunningService) -> None:
    """A refinement by the offline editor, with criteria and a validator."""
    refinement_id = await service.submit(
        task="Explain how refunds work, in plain words.",
        draft=LETTER,
        models={"generator": "offline:editor", "critic": "offline:editor"},
        criteria=[{"name": "clarity", "weight": 2}, {"name": "concision"}],
        validators=[{"kind": "length", "max_words": 60, "on_fail": "revise"}],
        max_iterations=4,
        threshold=0.98,
    )
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_role("heading", name="Time line")).to_be_visible()


async def review(page: Page, service: RunningService) -> Locator:
    """A letter under review, with a remark on a passage."""
    refinement_id = await service.submit(
        task="Explain how refunds work, in plain words.",
        draft=LETTER,
        models={"critic": "offline:editor"},
        criteria=[{"name": "clarity", "weight": 2}, {"name": "concision"}],
        review={"when": "each_iteration"},
    )
    await page.goto(f"/console/refinements/{refinement_id}")
    await page.get_by_label("Passage").fill("We are of the opinion that seven days are sufficient.")
    await page.get_by_label("Remark on it").fill("Say: it takes seven days.")
    await page.get_by_role("button", name="Add the remark").click()
    await page.get_by_label("What to change").focus()
    return page.get_by_role("region", name="Review of")


async def drafts(page: Page, service: RunningService) -> None:
    """What changed between two drafts, and the problems in the text."""
    refinement_id = await service.submit(
        task=None,
        draft=LETTER,
        models={"generator": "offline:editor", "critic": "offline:editor"},
        criteria=[{"name": "clarity", "weight": 2}, {"name": "concision"}],
        threshold=0.98,
    )
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}/drafts")
    await expect(page.locator("ins").first).to_be_visible()


async def refinements(page: Page, service: RunningService) -> None:
    """The list, with a review that waits."""
    for ticket in ("4711", "4712", "4713"):
        await service.ended(await service.submit(metadata={"ticket": ticket}))
    await service.submit(review={"when": "each_iteration"}, metadata={"ticket": "4714"})
    await page.goto("/console")
    await expect(page.get_by_role("heading", name="Waiting for your review")).to_be_visible()
    await expect(page.get_by_role("link", name="ticket=4711")).to_be_visible()


async def new(page: Page, service: RunningService) -> None:
    """The form, as it is filled in on a phone in the dark."""
    await page.set_viewport_size(ViewportSize(width=390, height=800))
    await page.emulate_media(color_scheme="dark")
    await page.goto("/console/new")
    await page.get_by_label("Draft", exact=True).fill(LETTER)
    await page.get_by_label("Strategy", exact=True).select_option("best_of_n")
    await expect(page.get_by_text("Expected:")).to_be_visible()


PICTURES: dict[str, Callable[[Page, RunningService], Awaitable[Locator | None]]] = {
    "drafts": drafts,
    "new": new,
    "overview": overview,
    "refinements": refinements,
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


async def main(names: list[str]) -> None:
    """Make these pictures, or all."""
    executable = next(filter(None, map(shutil.which, NAMES)))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
            for name in names or PICTURES:
                page = await browser.new_page(base_url=url_of(service.settings), viewport=SIZE)
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
    asyncio.run(main(sys.argv[1:]))
