"""Seals everything stored under the newest secret key, so that the one before it can go."""

import base64
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from pydantic_core import from_json, to_json

from app.store import keys
from app.store.committer import Committer
from app.store.packing import packed_entry, unpacked
from app.store.presets import about_preset
from app.store.provider_keys import about_provider_key
from app.store.scripts import REPACK, REPLACE_FIELD
from app.store.sealing import Sealer

SCANNED = 1_000  # keys in one round trip
SECRETS = b"secrets"


class Resealing:
    """Replaces what an earlier key has sealed. May run while the service does, and again.

    What is sealed under the newest key stays. Every method raises redis errors, and
    UnreadableSecrets for what neither key opens.
    """

    def __init__(self, committer: Committer, sealer: Sealer) -> None:
        self._committer = committer
        self._sealer = sealer

    async def seal_all(self) -> Counter[str]:
        """Seal everything anew; return how many records were, by kind."""
        done: Counter[str] = Counter()
        async for name in self._named(keys.REQUEST):
            about = name.decode().removeprefix(keys.REQUEST)
            done["requests"] += await self._field(name, SECRETS, about)
        async for name in self._named(keys.JOURNAL):
            done["requests"] += await self._packed(name.decode().removeprefix(keys.JOURNAL))
        async for name in self._named(keys.BATCH):
            about = name.decode().removeprefix(keys.BATCH)
            done["batches"] += await self._field(name, b"webhook_secrets", about)
        async for name in self._named(keys.PRESETS):
            tenant = name.decode().removeprefix(keys.PRESETS)
            for preset, record in (await self._committer.execute("HGETALL", name)).items():
                about = about_preset(tenant, preset.decode())
                done["presets"] += await self._member(name, preset, record, "secrets", about)
        async for name in self._named(keys.PROVIDER_KEYS):
            tenant = name.decode().removeprefix(keys.PROVIDER_KEYS)
            for provider, record in (await self._committer.execute("HGETALL", name)).items():
                about = about_provider_key(tenant, provider.decode())
                done["provider keys"] += await self._member(name, provider, record, "key", about)
        return done

    async def _field(self, name: bytes, field: bytes, about: str) -> bool:
        """Seal a field of a hash anew; return whether it had to be."""
        while sealed := await self._committer.execute("HGET", name, field):
            anew = self._sealer.sealed_anew(sealed, about)
            if anew is None:
                return False
            if await self._committer.submit(REPLACE_FIELD, name, field, sealed, anew):
                return True
        return False

    async def _member(
        self, name: bytes, field: bytes, record: bytes, member: str, about: str
    ) -> bool:
        """Seal a member of a JSON object in a hash anew; return whether it had to be.

        One that is replaced meanwhile is sealed under the newest key by whoever replaces it.
        """
        stored = from_json(record)
        sealed = base64.b64decode(stored[member])
        anew = self._sealer.sealed_anew(sealed, about) if sealed else None
        if anew is None:
            return False
        text = to_json({**stored, member: base64.b64encode(anew).decode()})
        return bool(await self._committer.submit(REPLACE_FIELD, name, field, record, text))

    async def _packed(self, refinement_id: str) -> bool:
        """Seal the secrets in a packed record anew; return whether they had to be."""
        while packed := await packed_entry(self._committer, refinement_id):
            record = await unpacked(packed)
            sealed = record.request.get(SECRETS)
            anew = self._sealer.sealed_anew(sealed, refinement_id) if sealed else None
            if anew is None:
                return False
            request = {**record.request, SECRETS: anew}
            after = replace(record, request=request).packed()
            if await self._committer.submit(REPACK, refinement_id, packed, after):
                return True
        return False

    async def _named(self, prefix: str) -> AsyncIterator[bytes]:
        cursor = None
        while cursor != 0:
            found = await self._committer.execute(
                "SCAN", cursor or 0, "MATCH", f"{prefix}*", "COUNT", SCANNED
            )
            cursor = int(found[0])
            for name in found[1]:
                yield name
