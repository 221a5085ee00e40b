"""The text of an API key, and its keyed hash, which is all that is stored of it."""

import hmac
import re
import secrets
import string
from collections.abc import Sequence
from hashlib import sha256

from app.settings import Settings, derived
from app.store import AccessStore, KeyRecord

ID_LENGTH = 12
SECRET_LENGTH = 43  # of 62 characters: 256 bits
ID_CHARACTERS = string.digits + string.ascii_lowercase
SECRET_CHARACTERS = string.digits + string.ascii_letters

_KEY = re.compile(rb"hone_([0-9a-z]{12})_[0-9A-Za-z]{43}")


def new_key() -> tuple[str, str]:
    """Return a new id, `key_...`, and the key, `hone_..._...`."""
    name = "".join(secrets.choice(ID_CHARACTERS) for _ in range(ID_LENGTH))
    secret = "".join(secrets.choice(SECRET_CHARACTERS) for _ in range(SECRET_LENGTH))
    return f"key_{name}", f"hone_{name}_{secret}"


def id_in(key: bytes) -> str | None:
    """Return the id of a key, or None if the text cannot be a key."""
    found = _KEY.fullmatch(key)
    return f"key_{found[1].decode()}" if found else None


async def secrets_of(settings: Settings, store: AccessStore) -> tuple[bytes, ...]:
    """Return the secrets from which keys are derived; the first is that of what is new.

    They are HONE_SECRET_KEY and HONE_SECRET_KEY_OLD and no others, so that a copy of Redis allows
    nothing; without them a random one in Redis. Raises redis errors.
    """
    return settings.secret_keys or (await store.random_secret(),)


class Hashing:
    """Hashes keys with HMAC-SHA256. Of several secrets the first is for new keys."""

    def __init__(self, server_secrets: Sequence[bytes]) -> None:
        derived_keys = [derived(secret, "API keys") for secret in server_secrets]
        self._keys = {sha256(key).hexdigest()[:8]: key for key in derived_keys}
        self._newest = next(iter(self._keys))

    def hash_of(self, key: bytes) -> tuple[str, str]:
        """Return which secret is used, and the hash (hex)."""
        return self._newest, hmac.digest(self._keys[self._newest], key, "sha256").hex()

    def knows(self, record: KeyRecord) -> bool:
        """Return whether a record was made under one of the secrets."""
        return record.hashed_with in self._keys

    def is_newest(self, record: KeyRecord) -> bool:
        """Return whether a record was made under the first of the secrets."""
        return record.hashed_with == self._newest

    def matches(self, key: bytes, record: KeyRecord | None) -> bool:
        """Return whether the record is that of the key; the time tells nothing about the hash."""
        secret = self._keys.get(record.hashed_with if record else self._newest)
        if secret is None:
            return False
        found = hmac.digest(secret, key, "sha256").hex()
        return hmac.compare_digest(found, record.hash if record else found[::-1])
