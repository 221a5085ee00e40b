"""One refinement: how it stands, its scores, its time line, its request and its events."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from benchmarks.model_replies import draft, improving, refusal
from tests.e2e.console.conftest import PHONE, scrolls_sideways, violations
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering, held_at, scoring
from tests.e2e.test_deltas import slow_words
from tests.waiting import TIMEOUT_S

HOSTILE = "<img src=x onerror=alert(1)>"


async def test_the_overview_shows_how_it_stands_its_scores_and_what_went_on_when(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = scoring(0.4, 0.7, 0.6)
    refinement_id = await service.submit(
        max_iterations=3, stop={"tolerance": 0}, metadata={"ticket": HOSTILE}
    )
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("the limit of 3 iterations was reached")).to_be_visible()
    await expect(page.get_by_role("heading", level=1).get_by_text("best effort")).to_be_visible()
    await expect(page.get_by_text(f"ticket: {HOSTILE}")).to_be_visible()
    chart = page.get_by_role("slider", name="Iteration")
    await expect(chart).to_have_attribute(
        "aria-valuetext", "Iteration 2, the best: score 0.70, not passed; quality 0.70"
    )
    await chart.press("ArrowRight")
    await expect(page.get_by_text("quality 0.60")).to_be_visible()
    await expect(page.get_by_text(draft(2))).to_be_visible()
    rows = page.get_by_role("table").get_by_role("row")
    await expect(rows.filter(has_text="Iteration 2")).to_contain_text("0.70")
    await expect(rows.filter(has_text="revise")).to_have_count(2)
    await page.get_by_role("button", name="Iteration 2").click()
    await expect(rows.filter(has_text="revise")).to_have_count(1)
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
    await page.get_by_text("As a table").click()
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
    assert await violations(page) == []


async def test_a_text_that_is_not_stored_stays_on_the_page_that_received_it(
    page: Page, service: RunningService
) -> None:
    released = asyncio.Event()
    service.models.behaviour = held_at("iterations/1/critique", released)
    refinement_id = await service.submit(max_iterations=1, store=False)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("Asked for")).to_be_visible()
    released.set()
    await expect(page.get_by_text(draft(1))).to_be_visible()
    address = f"/v1/refinements/{refinement_id}"
    async with page.expect_response(lambda it: it.url.endswith(address)) as again:
        pass
    assert (await (await again.value).json())["result"] is None
    await expect(page.get_by_text("its texts were erased")).to_be_visible()
    await expect(page.get_by_text(draft(1))).to_be_visible()


async def test_a_page_that_is_opened_after_the_end_shows_a_text_that_is_not_stored(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(max_iterations=1, store=False, metadata={"end": "late"})
    listed = "/v1/refinements?status=succeeded&metadata.end=late"  # a list delivers nothing
    async with asyncio.timeout(TIMEOUT_S):
        while not (await service.client.get(listed)).json()["data"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text(draft(1))).to_be_visible()


@pytest.mark.parametrize(
    ("ended_at", "shown"),
    [("00:00:59.700", "1 min 0 s"), ("00:01:59.700", "2 min 0 s"), ("00:59:59.700", "1 h 0 min")],
)
async def test_a_time_is_rounded_before_it_is_split(
    page: Page, service: RunningService, ended_at: str, shown: str
) -> None:
    refinement_id = await service.submit(max_iterations=1)
    day = "2026-01-01T"
    times = {"started_at": f"{day}00:00:00Z", "ended_at": f"{day}{ended_at}Z"}
    snapshot = {**await service.ended(refinement_id), **times}

    async def lasting(route: Route) -> None:
        await route.fulfill(json=snapshot)

    await page.route(re.compile(rf"/v1/refinements/{refinement_id}(\?.*)?$"), lasting)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.locator("main")).to_contain_text(shown)


async def test_a_pause_is_shown_and_then_the_text_while_it_is_written(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("Without a decision it ends with the best draft")).to_be_visible()
    rows = page.get_by_role("table").get_by_role("row")
    await expect(rows.filter(has_text="review")).to_contain_text("paused for a person")
    released = asyncio.Event()
    service.models.behaviour = held_at("iterations/2/revise", released)
    with slow_words(service):
        asked = {"action": "revise", "feedback": "Shorter."}
        await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", asked)
        await page.get_by_text("What is being written").click()
        await expect(page.get_by_role("heading", name="iterations/2/revise")).to_be_visible()
        await expect(page.get_by_text("Point 7 in version 2")).to_be_visible()
        await expect(rows.filter(has_text="revise")).to_contain_text("in progress")
        released.set()
    await expect(page.get_by_text("The draft at iterations/2 scored").last).to_be_visible()


async def test_inner_searches_have_charts_of_their_own(page: Page, service: RunningService) -> None:
    refinement_id = await service.submit(
        draft="Intro.\n\n## One\n\nFirst text.\n\n## Two\n\nSecond text.",
        strategy={"kind": "nested", "max_iterations": 1},
    )
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await page.get_by_label("Search").select_option("parts/section-2")
    await page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="Scores as a table").get_by_role("row")
    await expect(table).to_have_count(3)  # its head, the given section, and one revision
    await expect(page.get_by_role("button", name="Part section-2")).to_be_visible()


async def test_a_failure_says_what_to_do_and_a_retry_and_a_continuation_are_shown(
    page: Page, service: RunningService
) -> None:
    service.models.behaviour = answering(
        lambda key, _: refusal(400, HOSTILE) if key == "iterations/2/revise" else None
    )
    refinement_id = await service.submit()
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    failure = page.get_by_role("alert")
    await expect(failure).to_contain_text(HOSTILE)
    await expect(failure).to_contain_text("Correct the name of the model")
    await expect(page.get_by_role("row").filter(has_text="failed: model_refused")).to_be_visible()
    assert await violations(page) == []

    service.models.behaviour = improving
    path = f"/v1/refinements/{refinement_id}"
    child = (await service.client.post(f"{path}/continue", json={})).json()["id"]
    await page.reload()
    await page.get_by_role("link", name=child).click()
    await service.send("POST", f"{path}/retry", {})
    await page.get_by_role("link", name=refinement_id).click()
    await expect(page.get_by_text("retried once")).to_be_visible()
    await expect(page.get_by_text("The score is 0.95; the threshold is 0.85.")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="failed")).to_have_count(0)


async def test_the_request_and_the_events_can_be_read(page: Page, service: RunningService) -> None:
    refinement_id = await service.submit(
        criteria=[{"name": HOSTILE, "weight": 2, "floor": 0.3}],
        validators=[{"kind": "length", "max_words": 1_000}],
        context=[{"name": "policy.md", "text": "Refunds take a week."}],
    )
    await service.ended(refinement_id)
    await page.goto(f"/console/refinements/{refinement_id}")
    await page.get_by_role("link", name="Request").click()
    await expect(page.get_by_role("row").filter(has_text=HOSTILE)).to_contain_text("0.30")
    await expect(page.get_by_text("max_words: 1000")).to_be_visible()
    await page.get_by_text("Document policy.md").click()
    await expect(page.get_by_text("Refunds take a week.")).to_be_visible()
    await page.get_by_role("button", name="Show the JSON").click()
    await expect(page.get_by_text('"kind": "iterative"')).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("link", name="Events").click()
    await page.get_by_label("Type").select_option("iteration.completed")
    await page.get_by_text("iterations/2").click()
    await expect(page.get_by_text('"iteration": 2')).to_be_visible()
    assert await violations(page) == []
    await page.set_viewport_size(PHONE)
    assert not await scrolls_sideways(page)
