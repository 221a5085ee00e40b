"""Reports: the whole story of a refinement, in which a client's text stays text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx
import pytest
from markdown_it import MarkdownIt

from app.store import WorkerStore
from tests.api.api_client import DRAFT, ManualWorker, ended, paused, problem, submitted

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</code></pre></main><script>alert(1)</script>",
    "```\n# A heading\n``````\n`````text\n~~~~~~~~\n<b>bold</b>",
    "| a | b |\n| --- | --- |\n| \\| | `|` \\\\| |",
    "[click](javascript:alert(1)) ![x](https://example.com/x.png) <https://example.com> &lt;",
    "Not a heading\n=====\nNor this\n---\n\n[a]: https://example.com\n\n[a]",
    "- 1\n1. one\n+ two\n> quoted\n\n    indented\n***bold*** _it_ ~~gone~~ \\",
    "line\u2028separator\x85and\x1c more",
]
ELEMENTS = {
    *("h1", "h2", "h3", "h4", "p", "ul", "li", "strong", "code", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
HEAD = (
    *("iteration", "revised from", "score", "criteria", "passed", "findings", "untouched"),
    *("tokens", "cost (USD)", "seconds"),
)
ONE_CALL, TWO_CALLS = ("15", "0.2500", "0.5"), ("30", "0.5000", "1.0")
ATTRIBUTES = {"class"}


@dataclass
class Page(HTMLParser):
    """A page as a browser reads it: its elements, attributes, blocks of text and cells."""

    html: str
    elements: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    pieces: list[str] = field(default_factory=list)
    pieces_of_blocks: list[list[str]] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def blocks(self) -> list[str]:
        found = ["".join(pieces) for pieces in self.pieces_of_blocks]
        return [text for text in found if "\nbest draft " not in text]  # charts are blocks, too

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "pre":
            self.pieces_of_blocks.append([])
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "pre"

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)
        if self.depth:
            self.pieces_of_blocks[-1].append(data)


def as_html(markdown: str) -> str:
    """Return Markdown as a viewer shows it that lets through all markup."""
    html: str = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    return html


async def report(api: httpx.AsyncClient, refinement_id: str) -> str:
    response = await api.get(f"/v1/refinements/{refinement_id}/report")
    assert response.status_code == 200, response.text
    return response.text


def section(markdown: str, heading: str) -> str:
    """Return what stands below a heading of the second level."""
    return markdown.partition(f"\n{heading}\n\n")[2].partition("\n\n## ")[0]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_of_a_client_becomes_markup_and_all_of_it_is_shown(
    api: httpx.AsyncClient, worker: WorkerStore, text: str
) -> None:
    criteria = [{"name": "clarity"}, {"name": text[:100], "description": text}]
    fields = {"task": text, "draft": text, "criteria": criteria, "metadata": {"a": text}}
    refinement_id = await submitted(api, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, text, 0.4)
    await manual.complete()
    page = Page(as_html(await report(api, refinement_id)))
    assert page.elements <= ELEMENTS
    assert page.attributes <= ATTRIBUTES
    shown = text.replace("\x85", "\ufffd").replace("\x1c", "\ufffd")
    assert page.blocks == [f"{shown}\n", f"{shown}\n"]  # the result, and the task
    on_a_line = " ".join(shown.split())
    assert page.text.count(on_a_line) >= 2, page.text  # a cell of metadata, a criterion


async def test_the_table_tells_every_iteration_and_the_diff_what_has_changed(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    markdown = await report(api, await ended(api, worker, drafts=2))
    table = section(markdown, "## Iterations").partition("\n\n")[0].splitlines()
    assert table[0] == f"| {' | '.join(HEAD)} |"
    assert [row.strip("| ").split(" | ") for row in table[2:]] == [
        ["`iterations/0`", "\u2013", "0.00", "quality 0.00", "no", "0", "\u2013", *ONE_CALL],
        [
            *("`iterations/1` (best)", "`iterations/0`", "0.10", "quality 0.10", "no", "0"),
            *("\u2013", *TWO_CALLS),
        ],
    ]
    assert section(markdown, "## From `iterations/0` to `iterations/1`").splitlines() == [
        "```diff",
        "--- iterations/0",
        "+++ iterations/1",
        "@@ -1,2 +1,1 @@",
        "-First line.",
        "-Second line.",
        "+Draft 1.",
        "\\ No newline at end of file",
        "```",
    ]
    assert "**Requested changes**\n\n- be plain" in markdown
    assert "**Strengths**\n\n- short" in markdown
    assert "| `iterations/1/revise` | model call | \u2013 | 15 | 0.2500 | 0.5 |" in markdown


async def test_it_begins_with_how_it_ended_and_what_the_score_measures(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    markdown = await report(api, await ended(api, worker))
    told, verdict = markdown.split("\n\n")[1:3]
    assert told == "**Passed.** The score is 0.10; the threshold is 0.85."
    drafts = "2 drafts, 1 model call, 0.2500 USD"
    assert verdict == f"Score 0.10, threshold 0.85; {drafts}."
    assert section(markdown, "## The result") == (
        "Its score is **0.10**: the weighted mean of the criteria, as critics judged them. It is"
        " the draft at `iterations/1`.\n\n```text\nDraft 1.\n```"
    )


async def test_what_was_asked_is_told_with_weights_floors_and_limits(
    api: httpx.AsyncClient,
) -> None:
    criteria = [{"name": "clarity", "weight": 2, "floor": 0.5}]
    validators = [{"kind": "length", "max_words": 9}]
    refinement_id = await submitted(api, criteria=criteria, validators=validators)
    asked = section(await report(api, refinement_id), "## The request")
    assert asked.startswith("```text\nSay it plainly.\n```\n\nA draft of 25 characters was given.")
    assert "| clarity | \u2013 | 2 | 0.5 |" in asked
    assert '| `validators/0` | `length` | `veto` | \\{"max\\_words": 9\\} |' in asked
    assert "| maximum drafts | 3 |" in asked
    assert "| maximum tokens | none |" in asked
    assert "| `generator` | offline:editor | \u2013 |" in asked


async def test_every_status_has_a_report_that_says_so(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    assert "**Queued.** It waits for a worker." in await report(api, refinement_id)
    manual = await ManualWorker.claim(worker, refinement_id)
    assert "No draft is judged yet." in await report(api, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    running = await report(api, refinement_id)
    assert "**Running.**" in running
    assert section(running, "## The best draft so far").endswith(f"```text\n{DRAFT}```")
    await api.post(f"/v1/refinements/{refinement_id}/cancel")
    assert "**Canceling.**" in await report(api, refinement_id)
    await manual.stop()
    assert "**Canceled.** It was canceled; the best draft by then scored 0.40;" in await report(
        api, refinement_id
    )


async def test_a_pause_and_its_answer_are_told(api: httpx.AsyncClient, worker: WorkerStore) -> None:
    refinement_id = await paused(api, worker)
    waiting = await report(api, refinement_id)
    assert "Question: Is this draft good enough? Without an answer until 2" in waiting
    assert section(waiting, "## Reviews").endswith("No answer yet.")
    said = {"action": "rate", "score": 0.95, "feedback": "Good `enough`."}
    await api.post(f"/v1/refinements/{refinement_id}/reviews", json=said)
    answered = section(await report(api, refinement_id), "## Reviews")
    assert "A reviewer rated the draft, with a score of 0.95." in answered
    assert answered.endswith("```text\nGood `enough`.\n```")
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.start("iterations/1/revise")
    assert "a worker was lost" not in await report(api, refinement_id)


async def test_changed_limits_are_told_with_what_they_were(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    await ManualWorker.claim(worker, refinement_id)
    await api.patch(f"/v1/refinements/{refinement_id}", json={"threshold": 0.5})
    happened = section(await report(api, refinement_id), "## Other events")
    assert happened.endswith("limits changed: threshold from 0.85 to 0.5.")


@pytest.mark.parametrize(
    ("query", "accept"),
    [("", "*/*"), ("", "text/html,application/xhtml+xml,*/*;q=0.8"), ("?format=md", "text/html")],
)
async def test_it_is_markdown_in_utf_8(api: httpx.AsyncClient, query: str, accept: str) -> None:
    url = f"/v1/refinements/{await submitted(api)}/report{query}"
    response = await api.get(url, headers={"Accept": accept})
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"


async def test_a_page_is_refused_with_markdown_and_the_console_named(
    api: httpx.AsyncClient,
) -> None:
    url = f"/v1/refinements/{await submitted(api)}/report"
    refused = problem(await api.get(f"{url}?format=html"), 406, "not_acceptable")
    assert "text/markdown" in refused["detail"]
    assert "console" in refused["detail"]
    assert "md" in problem(await api.get(f"{url}?format=pdf"), 422, "invalid_request")["detail"]
    problem(await api.get(url, headers={"Accept": "text/html"}), 406, "not_acceptable")


async def test_the_report_of_an_unknown_refinement_is_not_found(api: httpx.AsyncClient) -> None:
    unknown = "/v1/refinements/ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB/report"
    problem(await api.get(unknown), 404, "not_found")


async def test_a_draft_as_long_as_they_come_is_shown_whole(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    long = "".join(f"{number} `<b>`|*\n" for number in range(14_000))[:200_000]
    other = "".join(f"<i>{number}`\n" for number in range(18_000))[:200_000].strip()
    refinement_id = await submitted(api, draft=long)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, long, 0.4)
    await manual.judge(1, other, 0.9)
    await manual.complete()
    page = Page(as_html(await report(api, refinement_id)))
    assert page.blocks[0] == f"{other}\n"
    assert page.elements <= ELEMENTS
    assert len(page.blocks[2]) > len(long) + len(other)


async def test_the_snapshot_says_where_the_report_is(api: httpx.AsyncClient) -> None:
    snapshot = (await api.get(f"/v1/refinements/{await submitted(api)}")).json()
    assert (await api.get(snapshot["links"]["report"])).status_code == 200
