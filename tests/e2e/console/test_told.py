"""What the console tells: who may decide, what the limit counts, and what became of webhooks."""

import json
from asyncio import Event

import pytest
from playwright.async_api import Page, Route, expect

from benchmarks.model_replies import ModelServerReply, improving
from tests.e2e.console.conftest import violations
from tests.e2e.running_service import RunningService
from tests.e2e.test_reviews import until_asked
from tests.local_endpoint import answering_with, endpoint

pytestmark = pytest.mark.long


async def test_a_reviewer_who_may_not_decide_is_told_who_may(
    page: Page, service: RunningService
) -> None:
    review = {"when": "each_iteration", "reviewers": ["key_ann"]}
    refinement_id = await service.submit(review=review)
    await until_asked(service, refinement_id, "iterations/1/review")
    session = {"tenant": "default", "scopes": ["read", "review", "submit"], "key_id": "key_bob"}
    known = ["key_bob"]

    async def answer(route: Route) -> None:
        await route.fulfill(body=json.dumps(session | {"reviews_as": known}), headers=JSON)

    async def ask_as_nobody(route: Route) -> None:
        """The service, which needs no key, does not know the keys of this test."""
        sent = route.request.headers
        assert sent.pop("hone-session") == "key_bob"
        await route.continue_(headers=sent)

    await page.route("**/console/session", answer)
    await page.route("**/v1/**", ask_as_nobody)
    await page.goto(f"/console/refinements/{refinement_id}")
    await expect(page.get_by_text("only key_ann may decide. You are key_bob.")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert await violations(page) == []
    known.append("key_ann")  # a key that replaces hers
    await page.reload()
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()


JSON = {"Content-Type": "application/json"}


async def test_an_iteration_beyond_the_limit_is_told_apart(
    page: Page, service: RunningService
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"}, max_iterations=1)
    await until_asked(service, refinement_id, "iterations/1/review")
    decision = {"action": "replace", "draft": "Mine."}
    await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", decision)
    await until_asked(service, refinement_id, "iterations/2/review")
    held = Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route("**/events?*", hold)
    await page.goto(f"/console/refinements/{refinement_id}")
    # Before the events are known, the page does not say which of the two it is.
    await expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
    await expect(page.get_by_text("and 1 more")).to_have_count(0)
    held.set()
    await expect(page.get_by_text("1 of 1and 1 more that reviews asked for")).to_be_visible()


async def test_who_must_do_what_about_a_key_that_is_refused(
    page: Page, service: RunningService
) -> None:
    refusal = ModelServerReply(401, b'{"error": {"message": "Expired key."}}')
    service.models.behaviour = lambda _: refusal
    refinement_id = await service.submit()
    await page.goto("/console/refinements")
    await expect(page.get_by_text("which refuses the API key").first).to_be_visible()
    await page.goto(f"/console/refinements/{refinement_id}")
    remedy = "The operator of this server must replace OPENAI_API_KEY, or get it access"
    await expect(page.get_by_text(remedy)).to_be_visible()
    service.models.behaviour = improving
    await service.ended(refinement_id)


async def test_a_webhook_is_shown_and_sent_again(page: Page, service: RunningService) -> None:
    async with endpoint(answering_with({})) as (url, *_):
        refinement_id = await service.submit(webhook={"url": url})
        await service.ended(refinement_id)
        await page.goto(f"/console/refinements/{refinement_id}/request")
        await expect(page.get_by_text("refinement.completed to")).to_be_visible()
        await page.get_by_role("button", name="Send it again").click()
        await expect(page.get_by_text("It is sent again.")).to_be_visible()
        assert await violations(page) == []
