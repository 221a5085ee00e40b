"""Every request in examples/ is accepted and refined, and the commands of its README run."""

import asyncio
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from aiohttp import web
from pydantic import SecretStr

from app.contract.requests import RefinementRequest
from benchmarks.model_replies import CRITERIA, AskedPrompt, ModelServerReply, chat, critique
from benchmarks.model_server import ScriptedModelServer
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import key_of
from tests.engine.scripted_replies import (
    contradictions,
    named,
    plan,
    questions,
    revised,
    step,
    steps,
)
from tests.local_endpoint import SECRET, THIS_MACHINE, endpoint
from tests.waiting import TIMEOUT_S

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text()
FIRST_PAGE = (ROOT / "README.md").read_text()
_, WITHOUT_KEY, WITH_MODEL = re.split(r"^## With.*$", README, flags=re.MULTILINE)

BODIES = {path.name: path.read_text() for path in EXAMPLES.glob("*.json")}
KEYS = ("openai_api_key", "anthropic_api_key")

Replies = Mapping[str, str]
REPLIES: dict[str, Replies] = {
    "best-of-four.json": {"draft": "20 % off all garden tools until 30 April"},
    "outline-draft-polish.json": {"draft": "1. Count what is on the shelves."},
    "correct-sql.json": {
        "draft": "SELECT name, total FROM customers JOIN orders ON customer = customers.id",
        "revise": "SELECT name, sum(total) FROM customers JOIN orders ON customer = customers.id"
        " WHERE NOT canceled GROUP BY name ORDER BY sum(total) DESC",
    },
    "verify-facts.json": {
        "draft": "A refund is sent within 14 days.",
        "questions": questions(("within 14 days", "When is a refund sent?")),
        "1": "Within 14 days.",
        "contradictions": contradictions(),
    },
    "vote-on-the-answer.json": {"draft": "8.4 / 12 x 7 is 4.9. <answer>Answer: 4.9 kg</answer>"},
    "revise-the-faulty-step.json": {
        "iterations/0/verify": steps(True, False),
        "revise": "2. The VAT on the books is 4.20 euros.\n3. In all it pays 349.80 euros.",
        "iterations/1/verify": steps(True, True, True),
    },
    "plan-before-writing.json": {
        "plan": plan("Add up what every venue costs."),
        "do": "Hall A 6,720 euros, Hall B 5,600 euros, Hall C is too small.",
        "replan": revised(met=True, evidence=((1, "Hall B 5,600 euros"),)),
        "draft": "Take Hall B.",
    },
    "plan-with-tools.json": {
        "plan": plan(step("Find the order.", "find_order", order=4711)),
        "replan": revised(met=True, evidence=((1, "sent on 2 March"),)),
        "draft": "Your refund was sent on 2 March and arrives by 16 March.",
    },
    "book-after-approval.json": {
        "plan": plan(
            *(named(it, tool="find_table", place=it) for it in ("harbour", "garden", "mill")),
            named("book", "garden", tool="book_table", place="garden", seats=12),
        ),
        "steps/3/replan": revised(named("book", tool="book_table", place="garden", seats=12)),
        "replan": revised(met=True, evidence=((4, "sent on 2 March"),)),
        "draft": "We eat in the garden.",
    },
    "further-outputs.json": {
        "draft": "Your refund of $129.50 was sent today. It arrives within 14 days.",
        "subject": "Your refund is on its way",
        "sms": "Your refund is on its way.",
    },
    "revise-one-passage.json": {
        "revise": json.dumps({"passages": {"p1": "We refund within 14 days of the return."}}),
    },
    "panel-of-critics.json": {"revise": "The price rises from 9 to 11 euros: energy costs more."},
    "report-on-topics.json": {
        "draft": "12 of 400 parcels came back.",
        "title": "Three in a hundred come back",
        "summary": "12 of 400 parcels came back.",
    },
    "story-in-chapters.json": {
        "outline": "- Dawn: the boats come home.\n- Dusk: the dog is found.",
        "draft": "The boats came home.",
    },
    "letter-two-approve.json": {"draft": "The carrier had lost your parcel. We pay 10 euros back."},
    "cheap-then-strong.json": {
        "draft": "We refund soon.",
        "iterations/2/revise": "We refund within 14 days.",
        "revise": "We refund to your card within 14 days of the return.",
        **{f"iterations/{it}/critique": critique(1, "accuracy", "tone") for it in (1, 2)},
    },
    "models-by-role.json": {"draft": "Refunds go to your card within 14 days."},
}
"""What the model replies, by step key or its last part; every other step is a critique."""


def files(section: str) -> list[str]:
    return re.findall(r"^\| `([\w-]+\.json)` \|", section, re.MULTILINE)


def test_the_readme_names_every_file_once() -> None:
    named = sorted([*files(WITHOUT_KEY), *files(WITH_MODEL)])
    assert named == sorted(BODIES)
    assert sorted(REPLIES) == sorted(files(WITH_MODEL))


def test_every_request_keeps_the_contract() -> None:
    requests = [RefinementRequest.model_validate_json(it, strict=True) for it in BODIES.values()]
    assert len({it.strategy.kind for it in requests}) > 10


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor_service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningService]:
    """A service that has the built-in editor and no key."""
    settings: dict[str, Any] = {"model": "offline:editor", **dict.fromkeys(KEYS, SecretStr(""))}
    async with running_service(tmp_path_factory.mktemp("service"), **settings) as service:
        yield service


@pytest.mark.asyncio(loop_scope="module")
async def test_what_needs_no_key_is_refined_without_one(editor_service: RunningService) -> None:
    names = files(WITHOUT_KEY)
    ended = await asyncio.gather(*(refined(editor_service, BODIES[name]) for name in names))
    assert [it["status"] for it in ended] == ["succeeded"] * len(names)
    passed = {name for name, it in zip(names, ended, strict=True) if it["outcome"] == "passed"}
    assert passed == {*names} - {"judge-without-revising.json"}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_needs_a_language_model_is_refused_without_one(
    editor_service: RunningService,
) -> None:
    for name in files(WITH_MODEL):
        response = await submit(editor_service, BODIES[name])
        assert response.status_code == 422, name


async def submit(service: RunningService, body: str) -> httpx.Response:
    headers = {"Content-Type": "application/json", "Prefer": "wait=30"}
    return await service.client.post("/v1/refinements", content=body, headers=headers)


async def refined(service: RunningService, body: str) -> dict[str, Any]:
    """Submit a body, approve the draft as each reviewer, and return the last snapshot."""
    response = await submit(service, body)
    assert response.is_success, response.text
    snapshot: dict[str, Any] = response.json()
    if snapshot["status"] == "paused":
        for reviewer in snapshot["review"]["reviewers"] or (None,):
            word = {"action": "approve", "reviewer": reviewer}
            await service.client.post(snapshot["links"]["reviews"], json=word)
    ended: dict[str, Any] = await service.ended(snapshot["id"])
    return ended


@pytest.mark.long
async def test_what_needs_a_language_model_is_refined_with_one(tmp_path: Path) -> None:
    model = ExampleModel()
    settings: dict[str, Any] = {
        "outbound_allow": THIS_MACHINE,
        "secret_key": SecretStr(SECRET),
        **dict.fromkeys(KEYS, SecretStr("key")),
    }
    async with (
        endpoint(order) as (url, called, _),
        ScriptedModelServer(model.anthropic) as anthropic,
        running_service(tmp_path, model, anthropic_base_url=anthropic.url, **settings) as service,
    ):
        for name, replies in REPLIES.items():
            model.replies = replies
            body = re.sub(r"https://\w+\.example\.com/\w+", url, BODIES[name])
            ended = await refined(service, body)
            assert (ended["status"], ended["outcome"]) == ("succeeded", "passed"), (name, ended)
            lacks = [it["code"] for it in ended["result"]["caveats"]]
            assert "text_missing" not in lacks, name
    assert (len(called), anthropic.counts.calls) == (1 + 4, 1 + 3)


class ExampleModel:
    """A model that replies to each step as the current example needs."""

    def __init__(self) -> None:
        self.replies: Replies = {}

    def __call__(self, asked: AskedPrompt) -> ModelServerReply:
        """Answer as OpenAI does."""
        return chat(self.text(asked))

    def anthropic(self, asked: AskedPrompt) -> ModelServerReply:
        """Answer as Anthropic does."""
        content = [{"type": "text", "text": self.text(asked)}]
        return ModelServerReply(
            body=json.dumps({"content": content, "stop_reason": "end_turn"}).encode()
        )

    def text(self, asked: AskedPrompt) -> str:
        """Return the reply to a step; critiques give the client's draft 0.4, any other 0.95."""
        key = key_of(asked).partition("/again/")[0]  # it does not change its mind
        reply = self.replies.get(key) or self.replies.get(key.rpartition("/")[2])
        if reply is not None:
            return reply
        criteria = CRITERIA.search(asked.body)
        assert criteria, key
        return critique(1 if key.startswith("iterations/0/") else 4, *json.loads(criteria[1]))


class CatalogueModel(ExampleModel):
    """A model that writes a better text into the row that it is given."""

    def text(self, asked: AskedPrompt) -> str:
        if not key_of(asked).endswith("revise"):
            return super().text(asked)
        prompt = asked.json["messages"][-1]["content"]
        row = json.loads(re.findall(r"<draft \S+>\n(.*?)\n</draft", prompt, re.DOTALL)[-1])
        return json.dumps({**row, "text": f"Better: {row['name']}."})


@pytest.mark.long
async def test_the_rows_of_a_catalogue_come_back_as_rows(tmp_path: Path) -> None:
    products = EXAMPLES / "catalogue" / "products.csv"
    async with running_service(tmp_path, CatalogueModel()) as service:
        command = f".venv/bin/python examples/catalogue/catalogue.py {products}"
        printed = await asyncio.to_thread(run, command, str(service.client.base_url))
        marked = tmp_path / "marked.csv"  # as spreadsheets write it
        marked.write_bytes(BOM_UTF8 + products.read_bytes())
        command = command.replace(str(products), str(marked))
        assert await asyncio.to_thread(run, command, str(service.client.base_url)) == printed
    before, after = (
        list(csv.DictReader(text.splitlines())) for text in (products.read_text(), printed)
    )
    assert [{**row, "text": f"Better: {row['name']}."} for row in before] == after


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"sku,price,text\nA,1,x\nB,2,y,z\n", "row 2 has 4 cells, not 3"),
        (b"sku,text\nA,x\n", "needs one column price"),
        (b"sku,price,text\n", "needs rows"),
        (b"sku,price,text\nA,1,caf\xe9\n", "not UTF-8"),
    ],
)
def test_a_catalogue_with_a_bad_row_is_not_submitted(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    command = [sys.executable, str(EXAMPLES / "catalogue" / "catalogue.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr


async def order(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"order": 4711, "refund": "sent on 2 March"})


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or no jq")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_commands_of_the_readme_run_as_they_stand(editor_service: RunningService) -> None:
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[1].splitlines()
    assert len(commands) == 4
    for command in commands:
        printed = await asyncio.to_thread(run, command, str(editor_service.client.base_url))
        assert "Because the blender was bought less than 30 days ago" in printed, command


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or no jq")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_preference_comes_out_as_a_pair(editor_service: RunningService) -> None:
    server = str(editor_service.client.base_url)
    printed = await asyncio.to_thread(run, "examples/pairs.sh", server)
    (pair,) = map(json.loads, printed.splitlines())
    assert (pair["source"], pair["by"]) == ("rating", "Ann")
    assert [it["role"] for it in pair["prompt"] + pair["chosen"]] == ["user", "assistant"]
    assert pair["chosen"] != pair["rejected"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_document_that_no_prompt_holds_is_refined(editor_service: RunningService) -> None:
    server = str(editor_service.client.base_url)
    printed = await asyncio.to_thread(run, "examples/long_document.sh", server)
    assert len(printed) > 400_000


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_the_comparison_on_its_page_comes_out_as_printed(
    editor_service: RunningService, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "comparing.md").read_text()
    (command,) = re.findall(r"```sh\n(hone compare .*)\n```", page)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    here = command.replace("hone", ".venv/bin/hone", 1)
    here = here.replace(" comparison.html", f" {tmp_path}/page.html")
    server = str(editor_service.client.base_url)
    printed = await asyncio.to_thread(run, here, server)
    assert without_seconds(printed) == without_seconds(shown)
    listed = await editor_service.client.get("/v1/refinements", params={"limit": 1})
    assert await asyncio.to_thread(run, here, server) == printed
    again = await editor_service.client.get("/v1/refinements", params={"limit": 1})
    assert again.json() == listed.json()


def without_seconds(table: str) -> list[str]:
    """Return the lines with white space and the seconds of each row removed."""
    lines = (" ".join(line.split()) for line in table.splitlines())
    return [re.sub(r"(\$0\.0000) [+-]?\d+\.\d\b", r"\1", line) for line in lines if line]


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_quick_start_of_the_first_page_runs_as_it_stands(
    editor_service: RunningService, tmp_path: Path
) -> None:
    start = FIRST_PAGE.partition("## Quick start")[2].partition("\n## ")[0]
    serve, *commands = re.findall(r"```sh\n(.*?)```", start, re.DOTALL)
    assert serve == "make serve\n"
    script = f"set -euo pipefail\n{''.join(commands)}ls -A\n"  # it leaves no file behind
    server = str(editor_service.client.base_url)
    printed = await asyncio.to_thread(run, script, server, tmp_path)
    (result,) = re.findall(r'"draft": ("To get.*?"),\n', start)
    events = re.search(r"```\n(event: .*?)```", start, re.DOTALL)
    assert events
    assert printed.startswith(events[1])
    assert result in printed
    assert printed.endswith("To get a refund, you should contact our support team.\n")


def test_every_file_that_the_first_page_links_to_exists() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", FIRST_PAGE)
    assert [it for it in targets if not (ROOT / it).exists()] == []


def run(command: str, server: str, cwd: Path = ROOT) -> str:
    """Run a command against this server, with this interpreter's environment; return its output."""
    host = server.rstrip("/").removeprefix("http://")
    here = command.replace("localhost:8080", host)
    here = here.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    environment = {"HONE_SERVER": f"http://{host}", "NO_PROXY": "*", "no_proxy": "*"}
    done = subprocess.run(
        ["bash", "-c", here],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
