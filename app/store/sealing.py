"""Encrypts the secrets of requests, which are stored apart from the request."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import from_json, to_json

from app.settings import Settings
from app.store.state import UnreadableSecrets

NONCE_BYTES = 12
PURPOSE = "secrets of requests"


class Sealer:
    """AES-256-GCM under a key of 32 bytes. What is sealed for one id opens for no other.

    Of several keys the first seals, and all of them open.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._ciphers = [AESGCM(key) for key in keys]

    def seal(self, found: Mapping[str, str], about: str) -> bytes:
        """Encrypt secrets by JSON Pointer; nothing is empty. Raises ValueError without a key."""
        if not found:
            return b""
        if not self._ciphers:
            raise ValueError("secrets cannot be stored: HONE_SECRET_KEY is not set")
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, to_json(dict(found)), about.encode())

    def open(self, sealed: bytes | None, about: str) -> dict[str, str]:
        """Decrypt what was sealed for the same id; raise UnreadableSecrets with another key."""
        if not sealed:
            return {}
        found, _ = self._opened(sealed, about)
        return found

    def sealed_anew(self, sealed: bytes, about: str) -> bytes | None:
        """Return what an earlier key has sealed under the first one; None if that one has.

        Raises UnreadableSecrets if no key opens it.
        """
        found, number = self._opened(sealed, about)
        return self.seal(found, about) if number else None

    def _opened(self, sealed: bytes, about: str) -> tuple[dict[str, str], int]:
        """Return the secrets, and the number of the key that has sealed them, from 0."""
        nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        for number, cipher in enumerate(self._ciphers):
            with suppress(InvalidTag):
                return from_json(cipher.decrypt(nonce, text, about.encode())), number
        raise UnreadableSecrets(
            "the secrets of the request, which another HONE_SECRET_KEY has encrypted"
        )


def sealer_of(settings: Settings) -> Sealer:
    """Return what encrypts under the keys of these settings, if they have a secret key."""
    return Sealer(settings.derived_keys(PURPOSE))


NO_SEALER = Sealer()
