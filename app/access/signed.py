"""Signed texts that need no storage: read tokens, sessions of the console, sign-ins elsewhere."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from app.settings import derived


@dataclass(frozen=True)
class ReadToken:
    """Permission to read one refinement. `key_id`: the key that it was made with, and works as
    long as.
    """

    prefix: ClassVar[bytes] = b"honet_"
    purpose: ClassVar[str] = "read tokens"

    tenant: str
    refinement_id: str
    key_id: str | None
    ends_at: int
    """Milliseconds since 1970 by Redis TIME."""


@dataclass(frozen=True)
class ConsoleSession:
    """Permission to act as the owner of a key, in the browser that showed the key."""

    prefix: ClassVar[bytes] = b"hones_"
    purpose: ClassVar[str] = "console sessions with an id"

    id: str
    key_id: str
    ends_at: int
    """Milliseconds since 1970 by Redis TIME."""


@dataclass(frozen=True)
class PendingSignIn:
    """A sign-in that has begun in a browser, and goes on at the provider (RFC 6749, 10.12)."""

    prefix: ClassVar[bytes] = b"honep_"
    purpose: ClassVar[str] = "sign-ins elsewhere"

    state: str
    nonce: str
    verifier: str
    to: str
    """The page that the person sees afterwards."""

    ends_at: int


SESSION_COOKIE = "hone_session"

Signed = TypeVar("Signed", ReadToken, ConsoleSession, PendingSignIn)


class Signing:
    """Signs with HMAC-SHA256, with a key for each purpose. Of several secrets the first signs."""

    def __init__(self, server_secrets: Sequence[bytes]) -> None:
        self._keys = {
            purpose: [derived(secret, purpose) for secret in server_secrets]
            for purpose in (ReadToken.purpose, ConsoleSession.purpose, PendingSignIn.purpose)
        }

    def signed(self, what: ReadToken | ConsoleSession | PendingSignIn) -> str:
        """Return its text, which is safe in a URL and in a cookie."""
        claims = _encoded(json.dumps(asdict(what)).encode())
        key = self._keys[what.purpose][0]
        return b".".join((what.prefix + claims, _signature(key, claims))).decode()

    def read(self, kind: type[Signed], text: bytes) -> Signed | None:
        """Return what a text says, or None unless this service signed it as one of this kind."""
        claims, _, signature = text.removeprefix(kind.prefix).partition(b".")
        signatures = [_signature(key, claims) for key in self._keys[kind.purpose]]
        if not any(hmac.compare_digest(signature, valid) for valid in signatures):
            return None
        return kind(**json.loads(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))))


def session_in(cookies: bytes) -> bytes | None:
    """Return the session that a `Cookie` header holds."""
    pairs = (pair.strip().partition(b"=") for pair in cookies.split(b";"))
    return next((pair[2] for pair in pairs if pair[0] == SESSION_COOKIE.encode()), None)


def _signature(key: bytes, claims: bytes) -> bytes:
    return _encoded(hmac.digest(key, claims, "sha256"))


def _encoded(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")
