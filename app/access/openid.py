"""People who sign in at an OpenID provider: the code flow with PKCE, state and nonce.

OpenID Connect Core 1.0, 3.1, and Discovery 1.0; RFC 7636 for PKCE; RFC 8725 for tokens. Loaded
only where there is a provider: the library is in the extra `oidc`.
"""

import hmac
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import loads
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import jwt
from aiohttp import ClientError, ClientSession, ClientTimeout

from app.access.people import Person, SignInFailed
from app.access.signed import PendingSignIn
from app.settings import Settings

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""What a token may be signed with, whatever the provider offers: none of them knows our secret."""

REQUIRED = ("exp", "iat", "iss", "aud", "sub", "nonce")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
GROUPS = "groups"
ANSWER_S = 10
KNOWN_S = 600.0
"""Seconds for which the provider's description of itself is believed."""

CLOCKS_DIFFER_S = 60
PENDING_S = 600
"""Seconds that a person has to sign in at the provider."""


class OpenIdProvider:
    """The provider of `HONE_OIDC_ISSUER`. Raises SignInFailed for whatever it does wrong."""

    def __init__(self, settings: Settings) -> None:
        secret = settings.oidc_client_secret
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._secret = secret.get_secret_value() if secret else ""
        self._metadata: Mapping[str, Any] = {}
        self._known_until = 0.0

    @staticmethod
    def begun(to: str, now_ms: int) -> PendingSignIn:
        """Return a new sign-in, after which the person sees the page `to`."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return PendingSignIn(state, nonce, verifier, to, now_ms + PENDING_S * 1000)

    async def address(self, pending: PendingSignIn, callback: str) -> str:
        """Return where the person is to sign in."""
        metadata = await self._described()
        challenge = urlsafe_b64encode(sha256(pending.verifier.encode()).digest()).rstrip(b"=")
        offers_groups = GROUPS in (metadata.get("scopes_supported") or ())
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": callback,
            "scope": "openid profile email" + (f" {GROUPS}" if offers_groups else ""),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        address = str(metadata["authorization_endpoint"])
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def person(self, pending: PendingSignIn, code: str, callback: str) -> Person:
        """Exchange a code, and return who has signed in."""
        metadata = await self._described()
        async with self._session() as session:
            token = await self._token(session, metadata, pending, code, callback)
            keys = await _read(session, "GET", metadata["jwks_uri"])
            claims = self._claims(str(token.get("id_token")), keys, pending.nonce)
            address, access = metadata.get("userinfo_endpoint"), token.get("access_token")
            if GROUPS not in claims and address and access:
                bearer = {"Authorization": f"Bearer {access}"}
                person = await _read(session, "GET", address, headers=bearer)
                if person.get("sub") == claims["sub"]:
                    claims = {**person, **claims}
        names = (claims.get(claim) for claim in ("email", "preferred_username", "name", "sub"))
        groups = claims.get(GROUPS) or ()
        listed = groups if isinstance(groups, list | tuple) else [groups]
        name = str(next(filter(None, names))).encode(errors="replace").decode()
        return Person(self._issuer, claims["sub"], name[:100], frozenset(map(str, listed)))

    async def _described(self) -> Mapping[str, Any]:
        """Return what the provider says of itself (Discovery 1.0, 4)."""
        if monotonic() > self._known_until:
            address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            async with self._session() as session:
                found = await _read(session, "GET", address)
            if found.get("issuer") != self._issuer:
                raise SignInFailed(f"{address} is that of another issuer.", 502)
            if any(not self._may_be_called(found.get(name)) for name in ENDPOINTS):
                raise SignInFailed(f"{address} lacks an endpoint, or has one without TLS.", 502)
            self._metadata, self._known_until = found, monotonic() + KNOWN_S
        return self._metadata

    def _may_be_called(self, address: object) -> bool:
        return str(address).startswith(("https://", f"{urlsplit(self._issuer).scheme}://"))

    async def _token(
        self,
        session: ClientSession,
        metadata: Mapping[str, Any],
        pending: PendingSignIn,
        code: str,
        callback: str,
    ) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "code_verifier": pending.verifier,
            "client_id": self._client_id,
        }
        known = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        headers = {}
        if self._secret and "client_secret_basic" in known:  # RFC 6749, 2.3.1
            login = ":".join(quote(word, safe="") for word in (self._client_id, self._secret))
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        elif self._secret:
            form["client_secret"] = self._secret
        return await _read(session, "POST", metadata["token_endpoint"], data=form, headers=headers)

    def _claims(self, token: str, keys: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        """Return what a token of the provider says for this sign-in (Core, 3.1.3.7)."""
        try:
            named = jwt.get_unverified_header(token).get("kid")
            fitting = [
                key.key
                for key in jwt.PyJWKSet.from_dict(dict(keys))
                if named in {None, key.key_id} and key.key_type != "oct"
            ]
            claims = _verified(token, fitting, self._client_id, self._issuer)
        except jwt.PyJWTError as invalid:
            raise SignInFailed(f"The token of the provider is not valid: {invalid}.", 502) from None
        if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise SignInFailed("The token of the provider is that of another sign-in.", 502)
        is_ours_alone = claims["aud"] in (self._client_id, [self._client_id])
        if claims.get("azp", self._client_id if is_ours_alone else None) != self._client_id:
            raise SignInFailed("The token of the provider is for another client.", 502)
        return claims

    def _session(self) -> ClientSession:
        return ClientSession(timeout=ClientTimeout(total=ANSWER_S), trust_env=True)


def _verified(token: str, keys: Sequence[Any], client_id: str, issuer: str) -> Mapping[str, Any]:
    """Return the claims of a token that one of the keys has signed; raise PyJWTError."""
    failure: jwt.PyJWTError = jwt.InvalidSignatureError("no key of the provider has signed it")
    for key in keys:
        try:
            found: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=client_id,
                issuer=issuer,
                leeway=CLOCKS_DIFFER_S,
                options={"require": [*REQUIRED]},
            )
        except jwt.PyJWTError as invalid:
            failure = invalid
        else:
            return found
    raise failure


async def _read(
    session: ClientSession, method: str, address: str, **sent: Any
) -> Mapping[str, Any]:
    """Return the object that the provider answers with; its redirections are not followed."""
    try:
        async with session.request(method, address, allow_redirects=False, **sent) as answer:
            found = _object_in(await answer.read())
            if answer.status != 200:
                said = found.get("error_description") or found.get("error") or answer.status
                raise SignInFailed(f"The provider refused: {str(said)[:200]}.", 502)
            return found
    except (ClientError, TimeoutError, OSError) as away:
        raise SignInFailed(f"The provider does not answer: {type(away).__name__}.", 502) from away


def _object_in(content: bytes) -> Mapping[str, Any]:
    try:
        found = loads(content)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
