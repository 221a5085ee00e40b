"""Makes the pictures of docs/console.md: `python -m tests.e2e.console.screenshots [NAME...]`."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import FloatRect, Locator, Page, ViewportSize, async_playwright, expect

from app.cli.processes import url_of
from tests.e2e.conftest import FLAGS, NAMES
from tests.e2e.running_service import RunningService, running_service

FOLDER = Path(__file__).parents[3] / "docs" / "console"
SIZE = ViewportSize(width=860, height=800)
CLIP = FloatRect(x=0, y=0, width=860, height=1300)
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


PICTURES: dict[str, Callable[[Page, RunningService], Awaitable[Locator | None]]] = {
    "overview": overview,
    "review": review,
}


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
                    await page.screenshot(path=path, full_page=True, clip=CLIP)
                await page.close()
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
