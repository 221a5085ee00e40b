"""Iterations and their differences, as views of the journal."""

import httpx
import pytest

from app.contract.drafts import sha256_of
from app.store import WorkerStore
from tests.api.api_client import DRAFT, ManualWorker, ended, problem, submitted


async def test_an_iteration_is_the_draft_that_was_judged_and_how(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await ended(api, worker, drafts=3)}/iterations"
    listed = (await api.get(url)).json()["data"]
    assert [each["draft"] for each in listed] == [DRAFT, "Draft 1.", "Draft 2."]
    assert [each["path"] for each in listed] == [f"iterations/{n}" for n in range(3)]
    assert all(each["sha256"] == sha256_of(each["draft"]) for each in listed)
    assert [each["usage"]["calls"] for each in listed] == [1, 2, 2]
    assert [each["usage"]["cost_usd"] for each in listed] == [0.25, 0.5, 0.5]
    assert listed[2]["parent"] == "iterations/1"
    assert listed[2]["asked"] == ["be plain"]
    assert (await api.get(f"{url}/2")).json() == listed[2]


async def test_what_is_not_judged_yet_is_no_iteration(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    url = f"/v1/refinements/{refinement_id}/iterations"
    assert (await api.get(url)).json() == {"data": []}
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.start("iterations/0/critique")
    problem(await api.get(f"{url}/0"), 404, "not_found")


@pytest.mark.parametrize(
    "rest", ["/9", "/x", "/-1", "?path=stages/outline", "/1?path=stages/outline", "/1?path=%00"]
)
async def test_an_iteration_that_is_not_there_is_a_404(
    api: httpx.AsyncClient, worker: WorkerStore, rest: str
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}/iterations{rest}"
    problem(await api.get(url), 404, "not_found")


async def test_a_diff_says_what_became_of_which_lines(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.1)
    await manual.judge(1, "First line.\nAnother line.", 0.2)
    diff = (await api.get(f"/v1/refinements/{refinement_id}/diff?from=0&to=1")).json()
    assert [(each["op"], each["to_text"]) for each in diff["operations"]] == [
        ("equal", "First line.\n"),
        ("replace", "Another line."),
    ]
    assert diff["unified"].splitlines() == [
        "--- iterations/0",
        "+++ iterations/1",
        "@@ -1,2 +1,2 @@",
        " First line.",
        "-Second line.",
        "+Another line.",
        "\\ No newline at end of file",
    ]


async def test_without_a_draft_of_the_clients_there_is_no_iteration_0(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    models = {"generator": "scripted:x", "critic": "scripted:x"}
    refinement_id = await submitted(api, draft=None, models=models)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(1, "Draft 1.", 0.2)
    url = f"/v1/refinements/{refinement_id}/diff"
    problem(await api.get(f"{url}?from=0&to=1"), 404, "not_found")
    assert (await api.get(f"{url}?from=1&to=1")).json()["unified"] == ""


@pytest.mark.parametrize(
    "query", ["", "?from=0", "?from=a&to=1", "?from=-1&to=1", "?from=1&to=1e9"]
)
async def test_a_diff_is_between_two_numbers(
    api: httpx.AsyncClient, worker: WorkerStore, query: str
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}/diff{query}"
    problem(await api.get(url), 422, "invalid_request")
