"""Encrypts the secrets of requests, which are stored apart from the request."""

import secrets
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import from_json, to_json

from app.settings import Settings
from app.store.state import UnreadableSecrets

NONCE_BYTES = 12
PURPOSE = "secrets of requests"


class Sealer:
    """AES-256-GCM under a key of 32 bytes. What is sealed for one id opens for no other."""

    def __init__(self, key: bytes | None) -> None:
        self._cipher = AESGCM(key) if key else None

    def seal(self, found: Mapping[str, str], about: str) -> bytes:
        """Encrypt secrets by JSON Pointer; nothing is empty. Raises ValueError without a key."""
        if not found:
            return b""
        if self._cipher is None:
            raise ValueError("secrets cannot be stored: HONE_SECRET_KEY is not set")
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, to_json(dict(found)), about.encode())

    def open(self, sealed: bytes | None, about: str) -> dict[str, str]:
        """Decrypt what was sealed for the same id; raise UnreadableSecrets with another key."""
        if not sealed:
            return {}
        unreadable = "the secrets of the request, which another HONE_SECRET_KEY has encrypted"
        if self._cipher is None:
            raise UnreadableSecrets(unreadable)
        nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            found: dict[str, str] = from_json(self._cipher.decrypt(nonce, text, about.encode()))
        except InvalidTag:
            raise UnreadableSecrets(unreadable) from None
        return found


def sealer_of(settings: Settings) -> Sealer:
    """Return what encrypts under a key of these settings, if they have a secret key."""
    return Sealer(settings.derived_key(PURPOSE))


NO_SEALER = Sealer(None)
