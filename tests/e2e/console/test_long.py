"""Long drafts: only texts that are looked at are transferred, and the page shows them in parts."""

import json
from typing import Any

import pytest
from playwright.async_api import Page, Response, expect

from benchmarks.model_replies import chat
from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.console.long import long_draft, verdict
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering

pytestmark = pytest.mark.long

CHARACTERS = 15_000
LIST_BYTES = 40_000


def draft(number: int) -> str:
    return long_draft(number, CHARACTERS)


async def judged(service: RunningService, drafts: int, **fields: Any) -> str:
    """Submit a long draft, and have it revised so many times."""

    def answer(key: str, _: object) -> Any:
        number = int(key.split("/")[1])
        return chat(verdict(number, ["quality"]) if key.endswith("critique") else draft(number))

    service.models.behaviour = answering(answer)
    stop = {"max_similarity": 1, "tolerance": 1}
    refinement_id = await service.submit(draft=draft(0), max_iterations=drafts, stop=stop, **fields)
    await service.ended(refinement_id)
    return refinement_id


async def test_a_page_is_sent_the_texts_that_it_shows_and_excerpts_of_the_others(
    page: Page, service: RunningService
) -> None:
    refinement_id = await judged(service, 4)
    sent: dict[str, int] = {}

    async def note(response: Response) -> None:
        if "/v1/" in response.url and "/events" not in response.url and response.status == 200:
            sent[response.url.partition("/v1/")[2]] = len(await response.body())

    page.on("response", note)
    await page.goto(
        f"/console/refinements/{refinement_id}/drafts?from=iterations/2&to=iterations/3"
    )
    await expect(page.get_by_text("places changed")).to_be_visible()
    await page.get_by_role("link", name="Steps", exact=True).click()
    await page.get_by_text("iterations/2/critique", exact=True).click()
    await page.get_by_role("button", name="Show the whole text").first.click()
    await expect(page.get_by_text("Sentence 20-3 of version").first).to_be_visible()
    lists = {name: size for name, size in sent.items() if "excerpts=true" in name}
    assert {name.partition("?")[0].rpartition("/")[2] for name in lists} == {"iterations", "steps"}
    assert max(lists.values()) < LIST_BYTES
    whole = sorted(name.partition("/")[2] for name in sent if "/iterations/" in name)
    assert [it.partition("?")[0] for it in whole] == [
        f"{refinement_id}/iterations/2",
        f"{refinement_id}/iterations/3",
    ]
    await page.get_by_role("link", name="Events", exact=True).click()
    await page.get_by_label("Type").select_option("step.completed")
    await page.get_by_text("iterations/1/revise", exact=True).click()
    await page.get_by_role("button", name="Show the whole text").click()
    shown = await page.locator("pre.text").inner_text()
    assert json.loads(shown)["reply"]["text"] == draft(1)


async def test_a_difference_has_the_words_of_both_drafts(
    page: Page, service: RunningService
) -> None:
    refinement_id = await judged(service, 3)
    address = f"/console/refinements/{refinement_id}/drafts"
    for first, second in ((1, 2), (0, 3)):
        await page.goto(f"{address}?from=iterations/{first}&to=iterations/{second}")
        await expect(page.get_by_text("places changed")).to_be_visible()
        await page.get_by_role("button", name="In one column").click()
        # It is drawn a few passages at a time.
        await page.wait_for_function(
            "(texts) => ['ins', 'del'].every((without, at) => {"
            " const shown = document.querySelector('.difference');"
            " shown.querySelectorAll('.fold').forEach((it) => it.click());"
            " const box = shown.cloneNode(true);"
            " box.querySelectorAll(without).forEach((it) => it.remove());"
            " return box.textContent === texts[at]; })",
            arg=[draft(first), draft(second)],
        )
    await expect(page.locator("ins").first).to_have_text("3")  # the word, not its sentence
    assert await violations(page) == []


async def test_twenty_criteria_fold_on_the_overview(page: Page, service: RunningService) -> None:
    criteria = [{"name": f"criterion {number}"} for number in range(20)]
    refinement_id = await service.submit(criteria=criteria, max_iterations=2)
    await service.ended(refinement_id)
    await page.set_viewport_size(PHONE)
    await page.goto(f"/console/refinements/{refinement_id}")
    last = page.get_by_role("button", name="criterion 19")
    await expect(page.get_by_role("button", name="criterion 5")).to_be_visible()
    await expect(last).to_be_hidden()
    await page.get_by_role("button", name="All 20 criteria").click()
    await expect(last).to_be_visible()
    assert not await scrolls_sideways(page)
    assert await violations(page) == []
