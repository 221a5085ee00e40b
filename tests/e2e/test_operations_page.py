"""What the page on operations says about access rules, shown by a service that runs under them."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from app.local.embedded import EmbeddedRedis
from tests.e2e.running_service import running_service
from tests.local_endpoint import SECRET, THIS_MACHINE, answering_with, endpoint
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations.md"


def access_rules() -> list[str]:
    """The rules of the page, with a password."""
    [line] = re.findall(r"^ACL SETUSER (.*)$", PAGE.read_text(), re.MULTILINE)
    return str(line).replace("PASSWORD", "secret").split()


async def test_api_workers_and_sender_do_everything_with_the_access_rules_of_the_page(
    tmp_path: Path,
) -> None:
    @contextmanager
    def as_user(redis: EmbeddedRedis) -> Iterator[str]:
        name, *rules = access_rules()
        with Redis.from_url(redis.url, decode_responses=True, socket_timeout=TIMEOUT_S) as admin:
            admin.execute_command("ACL SETUSER", name, "reset", *rules)
            yield redis.url.replace("unix://", f"unix://{name}:secret@")
            denied = {(entry["reason"], entry["object"]) for entry in admin.acl_log()}
            used = set(admin.info("commandstats"))
        assert denied == set()
        assert {"cmdstat_blmove", "cmdstat_evalsha", "cmdstat_client|unblock"} <= used

    settings: dict[str, Any] = {"secret_key": SecretStr(SECRET), "outbound_allow": THIS_MACHINE}
    async with (
        endpoint(answering_with("", 204)) as (url, told, _),
        running_service(tmp_path, route=as_user, **settings) as service,
    ):
        service.models.latency_s = TIMEOUT_S  # none ends before its command comes
        service.start("workers.webhooks")
        client = service.client
        fields = {"metadata": {"ticket": "1"}, "threshold": 1.0}
        ids = [await service.submit(**fields) for _ in range(3)]
        await service.submit(webhook={"url": url}, max_iterations=1)
        key = {"Idempotency-Key": "key"}
        keyed = partial(client.post, "/v1/refinements", json={"task": "x"}, headers=key)
        ids += [(await keyed()).json()["id"], (await keyed()).json()["id"]]
        assert (await client.patch(f"/v1/refinements/{ids[0]}", json={"threshold": 0.9})).is_success
        assert (await client.post(f"/v1/refinements/{ids[1]}/finish")).is_success
        assert (await client.post(f"/v1/refinements/{ids[2]}/cancel")).is_success
        service.models.latency_s = 0.2
        service.worker()
        service.processes[1].kill()  # the other one recovers what it held
        reviewed = await service.submit(review={"when": "before_completion"}, max_iterations=1)
        while (await service.get(reviewed))["status"] != "paused":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        review = f"/v1/refinements/{reviewed}/reviews"
        assert (await client.post(review, json={"action": "approve"})).is_success
        ended = [(await service.ended(one))["status"] for one in [*ids, reviewed]]
        assert ended == ["succeeded", "succeeded", "canceled", *["succeeded"] * 3]
        query = {"metadata.ticket": "1", "status": "succeeded"}
        assert len((await client.get("/v1/refinements", params=query)).json()["data"]) == 2
        assert (await service.events(ids[0]))[-1]
        assert (await client.delete(f"/v1/refinements/{ids[0]}")).status_code == 204
        await service.until(lambda: len(told) == 1)
        assert (await client.get("/readyz")).status_code == 200
