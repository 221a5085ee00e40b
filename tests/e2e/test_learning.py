"""A preset learns from its reviewers, with proof, and only when a person says so."""

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from redis.asyncio import Redis

from app.access.keyring import Keyring
from app.cli.processes import url_of
from app.contract.access import OPERATOR, KeyRequest
from app.queue import RefinementQueue
from app.store import open_store
from app.store.redis import keys
from benchmarks.greetings import FORBIDDEN, greeting_model, proposed
from hone_extras.learn.learning import UNUSABLE
from tests.api.test_erasure import traces
from tests.e2e.reviewed_preset import PRESET, reviewed
from tests.e2e.running_service import RunningService, running_service
from tests.installed_package import HONE, ROOT, environment_with, link_packages
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S


async def proposal(service: RunningService, name: str, **asked: Any) -> dict[str, Any]:
    """Return a proposal for a preset once it is decided, or has failed."""
    begun = await service.client.post(f"/v1/presets/{name}/proposals", json=asked)
    assert begun.status_code == 202, begun.text
    async with asyncio.timeout(TIMEOUT_S):
        return await looked_at(service, begun.headers["Location"])


async def looked_at(service: RunningService, path: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = (await service.client.get(path)).json()
        if found["status"] not in ("writing", "playing", "judging"):
            return found
        await asyncio.sleep(0.1)


PROPOSALS = "/v1/presets/erased/proposals"


async def preset_of(service: RunningService, name: str) -> Any:
    return (await service.client.get(f"/v1/presets/{name}")).json()["request"]


async def test_a_preset_learns_what_its_reviewer_changes_once_a_person_accepts(
    service: RunningService,
) -> None:
    await reviewed(service, "greeting")
    found = await proposal(service, "greeting")
    assert not {each["refinement"] for each in found["evidence"]} & {*found["held_out"]}
    assert found["after"]["instructions"]["generator"] == FORBIDDEN
    proof = found["proof"]
    assert (proof["significant"], proof["texts"], proof["wins"], proof["losses"]) == (True, 6, 6, 0)
    assert 0 < proof["gain"]["low"] < proof["gain"]["mean"] < proof["gain"]["high"]
    assert found["spent"]["calls"] == 1 + 6 * 2 * 2 + 6 * 2  # to write, to play, to judge
    assert found["spent"]["cost_usd"] > 0
    assert "instructions" not in await preset_of(service, "greeting")
    accepted = await service.client.post(f"/v1/presets/greeting/proposals/{found['id']}/accept")
    assert accepted.json()["status"] == "accepted"
    assert (await preset_of(service, "greeting"))["instructions"]["generator"] == FORBIDDEN
    assert (await preset_of(service, "greeting"))["review"]["when"] == "before_completion"


@pytest.mark.long
async def test_a_proposal_without_a_gain_says_so_and_is_accepted_on_purpose_only(
    service: RunningService,
) -> None:
    await reviewed(service, "useless")
    service.models.behaviour = greeting_model(proposed("Write with care."))
    found = await proposal(service, "useless")
    assert (found["status"], found["proof"]["significant"]) == ("decided", False)
    assert found["proof"]["ties"] == 6
    path = f"/v1/presets/useless/proposals/{found['id']}/accept"
    refused = await service.client.post(path)
    assert (refused.status_code, "no gain was shown" in refused.text) == (409, True)
    assert (await service.client.post(path, json={"anyway": True})).json()["status"] == "accepted"


TWICE = [{"name": "tone", "description": "Warm."}, {"name": "tone", "description": "Plain."}]


@pytest.mark.long
async def test_a_setting_that_no_request_can_have_is_not_played_and_ends_the_proposal(
    service: RunningService,
) -> None:
    await reviewed(service, "twice")
    service.models.behaviour = greeting_model(proposed(criteria=TWICE))
    found = await proposal(service, "twice")
    assert (found["status"], found["batches"]) == ("failed", [])
    assert found["error"] == f"{UNUSABLE}: /criteria: two criteria have the same name"
    assert found["spent"]["calls"] == 1
    refused = await service.client.post(f"/v1/presets/twice/proposals/{found['id']}/accept")
    assert refused.status_code == 409


@pytest.mark.long
async def test_what_a_writer_consumed_that_wrote_no_proposal_is_shown(
    service: RunningService,
) -> None:
    await reviewed(service, "mute")
    service.models.behaviour = greeting_model("Nothing comes to my mind.")
    found = await proposal(service, "mute")
    writing = await service.get(found["refinement"])
    assert (found["status"], found["spent"]) == ("failed", writing["usage"])
    assert found["spent"]["calls"] > 0


@pytest.mark.long
async def test_a_removed_proposal_counts_as_a_try_and_one_that_changes_nothing_does_not(
    service: RunningService,
) -> None:
    await reviewed(service, "tries")
    nothing = json.dumps({"criteria": None, "instructions": None, "why": []})
    levels = []
    for reply in (nothing, proposed("Write with care."), nothing, proposed("Write at ease.")):
        service.models.behaviour = greeting_model(reply)
        found = await proposal(service, "tries")
        levels.append(found["proof"]["confidence"])
        removed = await service.client.delete(f"/v1/presets/tries/proposals/{found['id']}")
        assert removed.status_code == 204
    assert [levels[1], levels[3]] == [0.95, 0.975]


async def test_erasing_one_text_erases_each_proposal_made_from_it_with_all_that_it_made(
    service: RunningService,
) -> None:
    await reviewed(service, "erased")
    first, again = [await proposal(service, "erased") for _ in range(2)]
    written_from = [each["refinement"] for each in first["evidence"]]
    with redis.Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as server:
        assert any("bout: erased" in kept for kept in traces(server).values())
        await service.send("DELETE", f"/v1/refinements/{written_from[0]}")
        for each in (first, again):
            assert (await service.client.get(f"{PROPOSALS}/{each['id']}")).status_code == 404
            made = {"metadata.proposal": each["id"]}
            assert (await service.client.get("/v1/refinements", params=made)).json()["data"] == []
            for batch in each["batches"]:
                assert (await service.client.get(f"/v1/batches/{batch}")).status_code == 404
        for refinement_id in (*written_from[1:], *first["held_out"]):
            await service.send("DELETE", f"/v1/refinements/{refinement_id}")
        left = traces(server)
    assert [name for name, kept in left.items() if "bout: erased" in kept] == []


async def test_a_preset_that_has_changed_since_is_not_overwritten(service: RunningService) -> None:
    await reviewed(service, "changed")
    found = await proposal(service, "changed")
    changed = await service.client.put("/v1/presets/changed", json=PRESET | {"threshold": 0.5})
    refused = await service.client.post(f"/v1/presets/changed/proposals/{found['id']}/accept")
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert await preset_of(service, "changed") == changed.json()["request"]


@pytest.mark.long
async def test_a_process_that_died_between_two_states_has_no_work_done_twice(
    tmp_path: Path,
) -> None:
    """What was submitted before the crash is found again, although no fact says so."""
    async with running_service(tmp_path, greeting_model()) as service:
        await reviewed(service, "killed")
        found = await proposal(service, "killed")
        played = {"metadata.proposal": found["id"], "limit": 100}
        before = (await service.client.get("/v1/refinements", params=played)).json()["data"]
        service.processes[0].kill()  # it would note the facts that it still knows
        service.processes[0].wait()
        async with Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as redis:
            (facts,) = await redis.keys(keys.PROPOSALS + f"*:{found['id']}")
            await redis.hdel(facts, "written", "playing", "judging", "proof")
        service.start("app.cli", "api")
        await service.ready(1)
        again = await looked_at(service, f"/v1/presets/killed/proposals/{found['id']}")
        after = (await service.client.get("/v1/refinements", params=played)).json()["data"]
        assert [each["id"] for each in after] == [each["id"] for each in before]
        assert again == found


@pytest.mark.long
async def test_a_budget_bounds_what_everything_may_cost(service: RunningService) -> None:
    await reviewed(service, "budget", 20)
    path = "/v1/presets/budget/proposals"
    refused = await service.client.post(path, json={"budget_usd": 0.0001})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/budget_usd")
    least = float(refused.json()["detail"].rpartition("$")[2])
    found = await proposal(service, "budget", budget_usd=1.2 * least)
    assert len(found["held_out"]) == 7  # of the 10 that half of the texts are
    assert found["spent"]["cost_usd"] < 1.2 * least


async def test_a_few_remarks_are_not_enough(service: RunningService) -> None:
    await reviewed(service, "few", 2)
    refused = await service.client.post("/v1/presets/few/proposals")
    assert refused.status_code == 409
    assert "few has 2 kept texts" in refused.json()["detail"]
    assert "needs 10" in refused.json()["detail"]


@pytest.mark.long
async def test_another_tenant_sees_nothing_and_the_audit_log_names_who_accepted(
    tmp_path: Path,
) -> None:
    async with (
        running_service(tmp_path, greeting_model()) as service,
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        keyring = Keyring(store.access, service.settings)
        issued = [await keyring.create(OPERATOR, KeyRequest(tenant=it)) for it in ("acme", "other")]
        acme, other = ({"Authorization": f"Bearer {it.key}"} for it in issued)
        service.client.headers.update(acme)
        await reviewed(service, "mail")
        found = await proposal(service, "mail")
        path = f"/v1/presets/mail/proposals/{found['id']}"
        for method, at in (
            ("GET", "/v1/presets/mail/proposals"),
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}/accept"),
        ):
            assert (await service.client.request(method, at, headers=other)).status_code == 404
        assert (await service.client.post(f"{path}/accept")).status_code == 200
        done = (await store.access.audited("acme", None, 1)).data[0]
        assert (done.action, done.about, done.by) == ("acceptProposal", "mail", issued[0].id)


@pytest.mark.long
async def test_without_its_extra_the_operation_answers_404_and_names_it(
    redis_url: str, tmp_path: Path
) -> None:
    core = tmp_path / "core"
    link_packages(core, without=frozenset({"scipy", "numpy"}))
    folders = environment_with(core, ROOT, ROOT / "extras", ROOT / "clients" / "python")
    command = [HONE[0], "-S", *HONE[1:], "api"]
    with ExitStack() as ending:
        port = ending.enter_context(reserved_port())
        url = f"http://127.0.0.1:{port}"
        environment = folders | {"HONE_REDIS_URL": redis_url, "HONE_PORT": str(port)}
        api = subprocess.Popen(command, env=environment)  # noqa: ASYNC220
        ending.callback(api.wait, TIMEOUT_S)
        ending.callback(api.terminate)
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            missing = await _answered(client, "/v1/presets/mail/proposals")
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
            assert "the extra `learn` (hone[learn]), which is not installed" in missing.text
            assert "pip install 'scipy>=1.16'" in missing.text
            assert (await client.get("/v1/presets")).status_code == 200


async def _answered(client: httpx.AsyncClient, path: str) -> httpx.Response:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with suppress(httpx.TransportError):
                return await client.get(path)
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_the_example_on_its_page_comes_out_as_printed(service: RunningService) -> None:
    await reviewed(service, "support-mail")
    page = (ROOT / "docs" / "learning.md").read_text()
    commands = re.findall(r"```sh\n(hone presets .*?)```", page, re.DOTALL)[0].splitlines()
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    printed = ""
    for command in commands:
        listed = (await service.client.get("/v1/presets/support-mail/proposals")).json()["data"]
        words = command.replace("ID", listed[0]["id"] if listed else "").split()[1:]
        printed += await asyncio.to_thread(run_hone, service, *words)
    assert without_figures(printed) == without_figures(shown)


def run_hone(service: RunningService, *words: str) -> str:
    """Return what a command prints; it has to succeed."""
    here = os.environ | {"HONE_SERVER": url_of(service.settings), "COLUMNS": "200"}
    command = [sys.executable, "-m", "app.cli", *words]
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_figures(printed: str) -> list[str]:
    """Return the lines without ids and numbers, which depend on which texts are held out."""
    return re.sub(r"prop_\w+|[0-9]+", "0", printed).splitlines()
