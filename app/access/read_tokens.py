"""Read tokens: signed permissions to read one refinement for some minutes. Nothing is stored."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from app.settings import derived

PREFIX = b"honet_"


@dataclass(frozen=True, slots=True)
class ReadToken:
    """What a token says. `key_id`: the key that it was made with, and works as long as."""

    tenant: str
    refinement_id: str
    key_id: str | None
    ends_at: int
    """Milliseconds since 1970 by Redis TIME."""


class Signing:
    """Signs tokens with HMAC-SHA256. Of several secrets the first signs."""

    def __init__(self, server_secrets: Sequence[bytes]) -> None:
        self._keys = [derived(secret, "read tokens") for secret in server_secrets]

    def signed(self, token: ReadToken) -> str:
        """Return the text of a token, which is safe in a URL."""
        said = _encoded(json.dumps(asdict(token)).encode())
        return b".".join((PREFIX + said, self._signature(self._keys[0], said))).decode()

    def read(self, text: bytes) -> ReadToken | None:
        """Return what a token says, or None unless this service signed it."""
        said, _, signature = text.removeprefix(PREFIX).partition(b".")
        signatures = [self._signature(key, said) for key in self._keys]
        if not any(hmac.compare_digest(signature, it) for it in signatures):
            return None
        return ReadToken(**json.loads(urlsafe_b64decode(said + b"=" * (-len(said) % 4))))

    @staticmethod
    def _signature(key: bytes, said: bytes) -> bytes:
        return _encoded(hmac.digest(key, said, "sha256"))


def _encoded(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")
