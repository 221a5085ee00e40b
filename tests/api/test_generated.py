"""A short part of `make fuzz`: requests made up from the OpenAPI document."""

from pathlib import Path

import httpx
import pytest

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.settings import Settings
from app.store import Store
from tests.api.api_client import submitted
from tests.api.conftest import requiring_keys
from tests.fuzz.generated import Target, generated
from tests.waiting import TIMEOUT_S


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


@pytest.mark.long
async def test_every_operation_answers_as_the_document_says(
    guarded: str, settings: Settings, store: Store, tmp_path: Path
) -> None:
    keyring = Keyring(store.access, settings)
    issued = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    key = {"Authorization": f"Bearer {issued.key}"}
    async with httpx.AsyncClient(base_url=guarded, headers=key, timeout=TIMEOUT_S) as api:
        ids = [await submitted(api) for _ in range(5)]
    target = Target(guarded, issued.key, issued.id, ids)
    found = generated(target, tmp_path, seed=1, each=2, phases="fuzzing")
    assert found.wrong == [], found.details
    assert found.statuses.total() > 50
    assert len(found.reached) > 10
