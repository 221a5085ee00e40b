"""Keys, tenants, tokens and quotas of a running service, down to its worker."""

import asyncio
from pathlib import Path

import pytest

from app.access.keyring import Keyring
from app.access.tenants import Tenants, erase_tenant
from app.contract.access import OPERATOR, KeyRequest, Quotas
from app.queue import RefinementQueue
from app.store import open_store
from app.store.cells import Cells
from tests.e2e.running_service import running_service
from tests.e2e.scripted_models import slow_at
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long


async def test_a_tenant_works_with_its_key_within_its_quotas_until_it_is_erased(
    tmp_path: Path,
) -> None:
    async with (
        running_service(tmp_path) as service,
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        keyring, tenants = Keyring(store.access, service.settings), Tenants(store.access)
        assert (await service.client.get("/v1/refinements")).status_code == 200
        await tenants.set_quotas(OPERATOR, "acme", Quotas(tokens_per_day=1))
        issued = [await keyring.create(OPERATOR, KeyRequest(tenant=it)) for it in ("acme", "other")]
        acme, other = ({"Authorization": f"Bearer {it.key}"} for it in issued)
        assert (await service.client.get("/v1/refinements", headers=acme)).status_code == 200
        service.client.headers.update(acme)
        service.models.behaviour = slow_at("iterations/1/draft", 1.5)
        refinement_id = await service.submit()
        path = f"/v1/refinements/{refinement_id}"
        async with asyncio.timeout(TIMEOUT_S):
            while (waiting := (await service.get(refinement_id))["waiting"]) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # its worker has to reach the quota
        assert (waiting["reason"], waiting["model"]) == ("tenant_quota", "quota:acme")
        assert service.models.counts.calls == 1
        refused = await service.client.post("/v1/refinements", json={"task": "x"})
        assert refused.json()["code"] == "quota_exceeded"
        await tenants.set_quotas(OPERATOR, "acme", Quotas())
        assert (await service.ended(refinement_id))["status"] == "succeeded"
        token = (await service.client.post(f"{path}/tokens")).json()["token"]
        assert (await service.client.get(path, headers=other)).status_code == 404
        del service.client.headers["Authorization"]
        assert (await service.client.get(path)).status_code == 401
        assert (await service.client.get(path, params={"token": token})).status_code == 200
        assert await erase_tenant(Cells([store]), "acme") == 1
        assert (await service.client.get(path, headers=acme)).status_code == 401
        assert (await service.client.get(path, params={"token": token})).status_code == 401
