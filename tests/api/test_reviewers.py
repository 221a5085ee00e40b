"""Several reviewers over HTTP: API keys where there are any, else the names that they give."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, IssuedKey, KeyRequest, Rotation, Scope
from app.settings import Settings
from app.store import Store, WorkerStore
from tests.api.api_client import paused, problem, submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

APPROVE = {"action": "approve"}


@pytest.fixture(scope="module")
def with_keys(settings: Settings) -> Settings:
    """Settings with a secret key, because the tests empty the Redis that has the random one."""
    secret = SecretStr("a secret of the tests")
    return settings.model_copy(update={"secret_key": secret, "auth": "required"})


@pytest.fixture(scope="module")
def guarded(with_keys: Settings) -> Iterator[str]:
    """An API that requires keys."""
    with running(with_keys) as url:
        yield url


@pytest.fixture
def keyring(store: Store, with_keys: Settings) -> Keyring:
    return Keyring(store.access, with_keys)


@asynccontextmanager
async def by(url: str, key: IssuedKey) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {key.key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S) as made:
        yield made


async def said(api: httpx.AsyncClient, refinement_id: str, **word: Any) -> httpx.Response:
    return await api.post(f"/v1/refinements/{refinement_id}/reviews", json={**APPROVE, **word})


def review(*reviewers: str, approvals: Any = "all") -> dict[str, Any]:
    return {"when": "each_iteration", "reviewers": reviewers, "approvals": approvals}


async def test_keys_that_are_named_approve_and_are_named_in_journal_snapshot_report_and_audit_log(
    guarded: str, keyring: Keyring, worker: WorkerStore
) -> None:
    mine = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    reviewing = KeyRequest(scopes=(Scope.REVIEW,))
    ann, bob, dan = [await keyring.create(OPERATOR, reviewing) for _ in range(3)]
    async with by(guarded, mine) as api:
        refinement_id = await paused(api, worker, review=review(ann.id, bob.id))
        async with by(guarded, dan) as other:
            problem(await said(other, refinement_id), 403, "forbidden")
        async with by(guarded, ann) as first:
            wrong = problem(
                await said(first, refinement_id, reviewer=bob.id), 422, "invalid_request"
            )
            assert wrong["errors"][0]["pointer"] == "/reviewer"
            now = (await said(first, refinement_id, feedback="Good.")).json()
        assert (now["status"], now["review"]["approvals"][0]["reviewer"]) == ("paused", ann.id)
        bobs_next = await keyring.rotate(OPERATOR, bob.id, Rotation(overlap_s=0))
        async with by(guarded, bobs_next) as second:
            now = (await said(second, refinement_id)).json()
        decided = {"reviewer": bob.id, "approved_by": [ann.id, bob.id]}
        assert now["status"] == "queued"
        assert {name: now["reviewed"][name] for name in decided} == decided
        url = f"/v1/refinements/{refinement_id}"
        events = (await api.get(f"{url}/events", headers={"Accept": "application/json"})).json()
        *_, given, last = events["data"]
        assert (given["type"], given["data"]["feedback"]) == ("refinement.approval_given", "Good.")
        assert {name: last["data"][name] for name in decided} == decided
        report = (await api.get(f"{url}/report")).text
        assert f"{ann.id} approved the draft (1 of 2)" in report.replace("\\", "")
        log = (await api.get("/v1/audit")).json()["data"]
        reviews = [it["by"] for it in log if it["action"] == "reviewRefinement"]
        assert reviews == [bobs_next.id, ann.id]


async def test_reviewers_who_could_not_decide_are_refused_with_the_request(
    guarded: str, keyring: Keyring
) -> None:
    mine = await keyring.create(OPERATOR, KeyRequest())
    reading = await keyring.create(OPERATOR, KeyRequest(scopes=(Scope.READ,)))
    elsewhere = await keyring.create(OPERATOR, KeyRequest(tenant="acme"))
    gone = await keyring.create(OPERATOR, KeyRequest())
    await keyring.revoke(OPERATOR, gone.id)
    rotated = await keyring.create(OPERATOR, KeyRequest())
    await keyring.rotate(OPERATOR, rotated.id, Rotation(overlap_s=0))
    async with by(guarded, mine) as api:
        for name in ("ann", reading.id, elsewhere.id, gone.id):
            body = {"draft": "A text.", "review": review(mine.id, name)}
            refused = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")
            assert [it["pointer"] for it in refused["errors"]] == ["/review/reviewers/1"]
        await submitted(api, review=review(mine.id, rotated.id))
        each = {"focus": "style", "criteria": [{"name": "conciseness"}], "review": review("ann")}
        body = {"draft": "A text.", "strategy": {"kind": "multi_pass", "passes": [each]}}
        refused = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")
        (found,) = refused["errors"]
        assert found["pointer"] == "/strategy/passes/0/review/reviewers/0"


async def test_where_requests_need_no_key_reviewers_give_their_names(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker, review=review("Ann", "Bob Müller", approvals=2))
    problem(await said(api, refinement_id), 422, "invalid_request")
    problem(await said(api, refinement_id, reviewer="Dan"), 403, "forbidden")
    assert (await said(api, refinement_id, reviewer="Ann")).json()["status"] == "paused"
    now = (await said(api, refinement_id, reviewer="Bob Müller")).json()
    assert now["reviewed"]["approved_by"] == ["Ann", "Bob Müller"]


@pytest.mark.parametrize(
    ("plan", "pointer"),
    [
        (review("ann", "bob", "ann"), "/review/reviewers"),
        (review("ann", "bob", approvals=3), "/review/approvals"),
        (review(approvals=0), "/review/approvals"),
        (review(approvals="most"), "/review/approvals"),
        (review(" ann"), "/review/reviewers/0"),
        (review(*map(str, range(21))), "/review/reviewers"),
    ],
)
async def test_a_plan_that_nobody_could_fulfil_is_refused(
    api: httpx.AsyncClient, plan: dict[str, Any], pointer: str
) -> None:
    body = {"draft": "A text.", "review": plan}
    refused = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")
    assert refused["errors"][0]["pointer"].startswith(pointer)
