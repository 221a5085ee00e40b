"""`GET /metrics`: for administrators, in the format of Prometheus."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.settings import Settings
from app.store import Store
from tests.api.api_client import problem
from tests.api.conftest import requiring_keys
from tests.waiting import TIMEOUT_S


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


async def test_an_administrator_reads_what_was_measured(
    guarded: str, settings: Settings, store: Store
) -> None:
    keyring = Keyring(store.access, settings)
    issued = {
        scope: await keyring.create(OPERATOR, KeyRequest(scopes=(scope,)))
        for scope in (Scope.READ, Scope.ADMIN)
    }
    async with httpx.AsyncClient(base_url=guarded, timeout=TIMEOUT_S) as client:
        reader, admin = ({"Authorization": f"Bearer {it.key}"} for it in issued.values())
        problem(await client.get("/metrics"), 401, "unauthenticated")
        problem(await client.get("/metrics", headers=reader), 403, "forbidden")
        answer = await client.get("/metrics", headers=admin)
    assert answer.headers["content-type"].startswith("text/plain")
    families = {it.name: it for it in text_string_to_metric_families(answer.text)}
    counted = [
        it.labels for it in families["hone_http_requests"].samples if it.name.endswith("_total")
    ]
    assert any(it["status"] == "403" for it in counted)
    assert {"hone_loop_lag_seconds", "hone_standing", "hone_redis_memory_share"} <= families.keys()
