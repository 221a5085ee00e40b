"""Text of clients and models stays text on every page, however hostile."""

import json

from playwright.async_api import Page, expect

from app.cli.processes import url_of
from benchmarks.model_replies import chat, refusal, verdict
from tests.api.test_reports import HOSTILE
from tests.e2e.console.conftest import PHONE, scrolls_sideways
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering

LONG = "W" * 250
MARKUP = "<img src=//evil.example/x onerror=document.title='ran'>"
TURNED = "\u202emoc.live\u2066\u200f"
TEXT = "\n\n".join([*HOSTILE, MARKUP, TURNED, LONG * 4])
NAMES = [f"{it[:50]}{number}" for number, it in enumerate([MARKUP, TURNED, *HOSTILE[:2]])]
NAMES += [f"{LONG[:60]}{number}" for number in range(16)]
TABS = ("overview", "drafts", "steps", "request", "events")


def judged() -> str:
    """A verdict whose every word is hostile."""
    said = json.loads(verdict(1, 0.4, *NAMES))
    for it in said["scores"].values():
        it["reason"] = MARKUP + LONG
    found = {
        "severity": "major",
        "criterion": NAMES[0],
        "issue": MARKUP + TURNED,
        "quote": MARKUP,
        "fix": MARKUP,
    }
    return json.dumps(said | {"findings": [found]})


async def hostile_refinements(service: RunningService) -> dict[str, str]:
    """Submit one that is paused for a review, one that failed, and a batch with an error."""
    service.models.behaviour = answering(
        lambda key, _: chat(judged() if key.endswith("critique") else TEXT)
    )
    metadata = {"of": MARKUP + LONG[:200], "turned": TURNED}
    request = {
        "task": TEXT,
        "draft": TEXT,
        "criteria": [{"name": it, "description": MARKUP} for it in NAMES],
        "context": [{"name": MARKUP[:60], "text": TEXT}],
        "metadata": metadata,
        "max_iterations": 2,
    }
    paused = await service.submit(**request, review={"when": "each_iteration"})
    ended = await service.submit(**request)
    await service.ended(ended)
    service.models.behaviour = answering(lambda *_: refusal(400, TEXT))
    failed = await service.submit(**request)
    await service.ended(failed)
    lines = [
        {"batch": {"metadata": metadata}},
        {"custom_id": MARKUP + LONG[:60], "request": {"draft": TEXT, "max_iterations": 99}},
        {"custom_id": TURNED, "request": {"draft": TEXT, "metadata": {"of": MARKUP * 3}}},
    ]
    response = await service.client.post(
        "/v1/batches",
        content="\n".join(map(json.dumps, lines)),
        headers={"Content-Type": "application/jsonl"},
    )
    assert response.status_code == 202, response.text
    return {"paused": paused, "ended": ended, "failed": failed, "batch": response.json()["id"]}


async def test_hostile_text_runs_nothing_and_asks_no_other_host(
    page: Page, service: RunningService
) -> None:
    asked: set[str] = set()
    page.on("request", lambda it: asked.add("/".join(it.url.split("/")[:3])))
    made = await hostile_refinements(service)
    await page.set_viewport_size(PHONE)
    paths = ["", f"/batches/{made['batch']}", f"/new?from={made['ended']}"]
    paths += [f"/refinements/{made[name]}" for name in ("paused", "failed")]
    paths += [f"/refinements/{made['ended']}/{tab}" for tab in TABS]
    for path in paths:
        await page.goto(f"/console{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        await page.evaluate(
            "document.querySelectorAll('details').forEach((it) => (it.open = true))"
        )
        assert not await scrolls_sideways(page), path
        assert await page.locator("main img, main script").count() == 0, path
    assert await page.title() != "ran"
    assert asked == {url_of(service.settings)}


LEFT_OF = """([what, words]) => {
    const walker = document.createTreeWalker(document.querySelector(what), NodeFilter.SHOW_TEXT);
    const places = Object.fromEntries(words.map((it) => [it, null]));
    while (walker.nextNode()) {
        for (const it of words) {
            const at = walker.currentNode.data.indexOf(it);
            if (at < 0 || places[it] !== null) continue;
            const range = document.createRange();
            range.setStart(walker.currentNode, at);
            range.setEnd(walker.currentNode, at + it.length);
            places[it] = range.getBoundingClientRect().left;
        }
    }
    return words.map((it) => places[it]);
}"""
TURNING = "\u2069\u202emoc"
HEBREW = "\u05e9\u05dc\u05d5\u05dd"
ARABIC = "\u0645\u0631\u062d\u0628\u0627"


async def test_a_name_turns_nothing_around_it_and_a_text_reads_in_its_own_direction(
    page: Page, service: RunningService
) -> None:
    text = f"{ARABIC} {HEBREW} 1.\n\nAnd this one is English.\n"
    service.models.behaviour = answering(
        lambda key, _: chat(
            verdict(1, 0.4, HEBREW, TURNING) if key.endswith("critique") else f"{text}\n{ARABIC}."
        )
    )
    refinement_id = await service.submit(
        draft=text,
        criteria=[{"name": HEBREW}, {"name": TURNING}],
        metadata={"of": TURNING},
        max_iterations=1,
    )
    await service.ended(refinement_id)
    await page.goto("/console/refinements")
    await expect(page.locator(".tags").first).to_contain_text("of=[U+2069][U+202E]moc")
    await page.goto(f"/console/refinements/{refinement_id}")
    judged = page.locator(".values > span[title]")
    await expect(judged).to_have_count(2)
    for name, span in (("moc", ":last-child"), (HEBREW, ":nth-last-child(2)")):
        places = await page.evaluate(LEFT_OF, [f".values > {span}", [name, "0.40"]])
        assert places == sorted(places), name
    await page.goto(
        f"/console/refinements/{refinement_id}/drafts?from=iterations/0&to=iterations/1"
    )
    await expect(page.locator("ins").first).to_be_visible()
    asked = page.get_by_role("listitem").filter(has_text="[U+202E]moc")
    await expect(asked).to_contain_text("Version 1")
    for box in (".judgement pre", ".difference pre"):
        places = await page.evaluate(LEFT_OF, [box, ["And", HEBREW, ARABIC]])
        assert places == sorted(places), box
        middle = await page.locator(box).first.evaluate(
            "(it) => it.getBoundingClientRect().left + it.clientWidth / 2"
        )
        assert places[0] < middle < places[1], box
