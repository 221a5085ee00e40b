"""An OpenID provider on this machine, at which a person is signed in without being asked."""

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

CLIENT_ID = "hone"
CLIENT_SECRET = "a secret: of/the client"

Claims = dict[str, Any]
Sign = Callable[["OpenIdServer", Claims], str]


def signed(provider: "OpenIdServer", claims: Claims) -> str:
    """Return a token as the provider signs it."""
    return jwt.encode(claims, provider.key, "RS256", headers={"kid": "1"})


@dataclass
class OpenIdServer:
    """What the provider says of the person, and what it was asked; a test may change either."""

    issuer: str = ""
    key: RSAPrivateKey = field(default_factory=lambda: generate_private_key(65_537, 2_048))
    person: Claims = field(default_factory=lambda: {"sub": "1", "email": "ann@example.com"})
    told: Claims = field(default_factory=dict)
    """What it says at its endpoint for that, beside what is in the token."""

    sign: Sign = signed
    described: Claims = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def describe(self, _request: web.Request) -> web.Response:
        """Answer as Discovery 1.0 says."""
        at = self.issuer
        known = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "jwks_uri": f"{at}/keys",
            "userinfo_endpoint": f"{at}/userinfo",
            "scopes_supported": ["openid", "groups"],
        }
        return web.json_response(known | self.described)

    async def keys(self, _request: web.Request) -> web.Response:
        """Return the public key."""
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return web.json_response({"keys": [key | {"kid": "1", "use": "sig"}]})

    async def authorize(self, request: web.Request) -> web.Response:
        """Lead the browser back with a code."""
        asked = dict(request.query)
        if asked["response_type"] != "code" or asked["code_challenge_method"] != "S256":
            raise web.HTTPBadRequest
        code = secrets.token_hex(16)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{back}")

    async def token(self, request: web.Request) -> web.Response:
        """Exchange a code for a token, once, for who has begun and knows the secret."""
        form = await request.post()
        asked = self.codes.pop(str(form["code"]), None)
        given = b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        challenge = urlsafe_b64encode(sha256(str(form["code_verifier"]).encode()).digest())
        is_good = (
            asked is not None
            and given == f"{CLIENT_ID}:a%20secret%3A%20of%2Fthe%20client"
            and asked["redirect_uri"] == form["redirect_uri"]
            and asked["code_challenge"] == challenge.rstrip(b"=").decode()
        )
        if not is_good or asked is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}
        claims |= self.person | {"nonce": asked["nonce"]}
        return web.json_response({"access_token": "access", "id_token": self.sign(self, claims)})

    async def userinfo(self, request: web.Request) -> web.Response:
        """Return what is known of the person."""
        if request.headers["Authorization"] != "Bearer access":
            raise web.HTTPUnauthorized
        return web.json_response(self.person | self.told)


@asynccontextmanager
async def openid_provider() -> AsyncIterator[OpenIdServer]:
    """Run a provider."""
    provider = OpenIdServer()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.describe)
    app.router.add_get("/keys", provider.keys)
    app.router.add_get("/authorize", provider.authorize)
    app.router.add_post("/token", provider.token)
    app.router.add_get("/userinfo", provider.userinfo)
    async with TestServer(app, host="127.0.0.1") as server:
        provider.issuer = f"http://127.0.0.1:{server.port}"
        yield provider
