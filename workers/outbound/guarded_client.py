"""Signed calls to clients' endpoints, at public addresses and addresses that the operator allows.

Signed as Standard Webhooks 1.0 (https://www.standardwebhooks.com): `webhook-id`,
`webhook-timestamp`, and `webhook-signature: v1,<base64>`, an HMAC-SHA256 of
`<id>.<timestamp>.<body>` under the secret of the endpoint. The timestamp is the time of Redis.

Public addresses are those outside IANA's special-purpose registries. `ipaddress.is_global` is not
enough: up to Python 3.12 it accepts multicast, and NAT64 and 6to4, which lead to any IPv4 address.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Protocol

import aiohttp
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from pydantic import SecretStr
from yarl import URL

from app.contract.endpoints import AllowedTargets, Endpoint, signing_key
from app.contract.errors import Unavailable
from app.contract.values import value
from app.contract.waiting import WaitReason
from app.store.signing_secrets import EndpointSigning
from workers.outbound.transport import (
    SHORTEST_SECRET,
    AddressRefused,
    AiohttpClient,
    HttpClient,
    HttpResponse,
    NotConnected,
    Request,
    RequestAttempts,
    RequestUnanswered,
    RetryPolicy,
    StatusRejected,
    Transport,
    TransportError,
    UntrustedPeer,
    UnusableResponse,
    is_loopback_host,
    open_session,
    proxy_url,
    retry_after_s,
)

log = logging.getLogger(__name__)

NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
            "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
            "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "168.63.129.16/32",  # Azure's own services, reachable only from its machines
        ),
    )
)  # fmt: skip
UNICAST_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)


def is_public(address: str) -> bool:
    """Return whether an address, given as text, belongs to a host on the public internet."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        return parsed in UNICAST_V6 and not any(parsed in network for network in NOT_PUBLIC_V6)
    return not any(parsed in network for network in NOT_PUBLIC_V4)


def guarded_socket(allowed: AllowedTargets, target: Any) -> socket.socket:
    """Return a socket for an entry of `getaddrinfo`: the address that is connected to next.

    Raises `AddressRefused` unless that address is public or allowed, whatever the name resolved to
    before.
    """
    family, kind, protocol, _, (address, port, *_) = target
    if not is_public(str(address)) and not allowed.has_address(str(address), port):
        raise AddressRefused
    return socket.socket(family=family, type=kind, proto=protocol)


def may_be_public(host: str) -> bool:
    """Return False for a host that is not public by its name, or by its address in any notation.

    A proxy resolves all others, and must refuse addresses that are not public. It may decode what
    is percent-encoded, so that no such name is public.
    """
    name = host.rstrip(".")
    if "%" in name:
        return False
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:  # a name: nothing is looked up
        return not is_loopback_host(name)
    return all(is_public(str(address[0])) for *_, address in found)


class GuardedResolver(ThreadedResolver):
    """Gives the same error for a name that does not exist as for one that may not be called."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        try:
            return await super().resolve(host, port, family)
        except socket.gaierror as error:
            if error.errno in UNKNOWN_NAME:
                raise AddressRefused from None
            raise


UNKNOWN_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)
MAX_REPLY = 256 * 1024
SIGN_AGAIN_S = 0.2


class EndpointUnavailable(Exception):
    """The endpoint gave no usable answer; `detail` says why.

    `may_have_acted` is true if the call was sent and the endpoint did not say that it failed.
    """

    def __init__(self, detail: str, *, may_have_acted: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.may_have_acted = may_have_acted


class EndpointAway(EndpointUnavailable):
    """The endpoint does not serve calls now, but may later: `reason` says why."""

    def __init__(
        self,
        detail: str,
        reason: WaitReason,
        retry_after_s: float | None = None,
        *,
        may_have_acted: bool = True,
    ) -> None:
        super().__init__(detail, may_have_acted=may_have_acted)
        self.reason = reason
        self.retry_after_s = retry_after_s


class EndpointWaits(EndpointUnavailable):
    """The endpoint takes no call now: the same one is to be made again after `wait_s`."""

    def __init__(self, name: str, reason: WaitReason, wait_s: float, detail: str) -> None:
        super().__init__(detail)
        self.name = name
        self.reason = reason
        self.wait_s = wait_s


class EndpointClient(Protocol):
    """Posts to clients' endpoints: `GuardedClient`, or a substitute for all endpoints."""

    async def ready(self, endpoint: Endpoint, tenant: str) -> None:
        """Return when nothing but the endpoint itself can keep a call from being sent: now."""
        await asyncio.sleep(0)

    async def post(
        self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "default"
    ) -> bytes: ...


@value(slots=True)
class Answered:
    """What became of one request: a status of None if there was no answer."""

    status: int | None
    detail: str
    retry_after_s: float | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether the answer is a 2xx."""
        return self.status is not None and 200 <= self.status < 300


class EndpointSender(Protocol):
    """Sends webhooks: `GuardedClient`, or a substitute."""

    async def deliver(
        self, endpoint: Endpoint, body: bytes, message_id: str, tenant: str
    ) -> Answered: ...


SigningOf = Callable[[str, str], Awaitable[EndpointSigning]]
"""Returns what signs a call of a tenant's URL now. Raises Unavailable."""


class GuardedClient:
    """Posts JSON with retries within one timeout, all with the same message id and key."""

    def __init__(
        self,
        sessions: "Sessions",
        signing_of: SigningOf,
        allowed: AllowedTargets,
        egress_proxy: URL | None = None,
    ) -> None:
        self._sessions = sessions
        self._allowed = allowed
        self._egress_proxy = egress_proxy
        self._signing_of = signing_of

    async def ready(self, endpoint: Endpoint, tenant: str) -> None:
        """Return when a call can be signed: while Redis is away, it waits."""
        await self._signing(endpoint, tenant)

    async def post(
        self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "default"
    ) -> bytes:
        """Return the body of a 2xx response of at most `MAX_REPLY` bytes.

        Of a longer one that `is_cut` the beginning is returned, with one byte more than that.
        `key` is the same whenever the same step is repeated. The timeout begins when the call can
        be signed. Raises `EndpointUnavailable`, and `EndpointAway` if a later call may succeed.
        """
        message_id = f"msg_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        request = _request(endpoint, body, message_id, await self._signing(endpoint, tenant))
        attempts = self._attempts(endpoint, key, endpoint.tries)
        open_reader = BeginningReader if endpoint.is_cut else None
        try:
            return await attempts.post(request, open_reader=open_reader)
        except RequestUnanswered as error:
            raise _away(error, may_have_acted=attempts.was_sent) from None
        except TransportError as error:
            is_sent = attempts.was_sent or isinstance(error, UnusableResponse)
            is_unclear = is_sent and not isinstance(error, StatusRejected)
            raise EndpointUnavailable(error.detail, may_have_acted=is_unclear) from None

    async def _signing(self, endpoint: Endpoint, tenant: str) -> EndpointSigning:
        while True:
            try:
                return await self._signing_of(tenant, endpoint.url)
            except Unavailable as error:
                log.warning("a call of an endpoint waits: %s", error)
            await asyncio.sleep(SIGN_AGAIN_S)

    async def deliver(
        self, endpoint: Endpoint, body: bytes, message_id: str, tenant: str
    ) -> Answered:
        """Send a webhook once. A 2xx is one even if its body cannot be read. Raises Unavailable."""
        signing = await self._signing_of(tenant, endpoint.url)
        request = _request(endpoint, body, message_id, signing)
        attempts = self._attempts(endpoint, message_id, tries=1)
        try:
            await attempts.post(request)
        except TransportError as error:
            response = getattr(error, "response", None)
            wait_s = retry_after_s(response.fields) if response else None
            detail = "" if attempts.fields else error.detail
            return Answered(attempts.status, detail, wait_s)
        return Answered(attempts.status, "")

    def _attempts(self, endpoint: Endpoint, key: str, tries: int) -> RequestAttempts:
        timeout_s = endpoint.timeout_s
        retry_policy = RetryPolicy(total_s=timeout_s, connect_s=min(5.0, timeout_s), tries=tries)
        session, proxy = self._session(endpoint.url)
        client = AiohttpClient(session, retry_policy.connect_s, lambda _url: proxy)
        return Transport(_DiscreetClient(client), retry_policy, MAX_REPLY).step(key)

    def _session(self, url: str) -> tuple[aiohttp.ClientSession, URL | None]:
        """Return session and proxy for a URL, which depend on the text of the URL alone."""
        try:
            target = URL(url)
            host = target.raw_host or ""  # as it is connected to, in whatever letters it was given
            if self._allowed.has_name(host, target.port or 0):
                return self._sessions.unguarded, None
            if self._egress_proxy and may_be_public(host):
                return self._sessions.unguarded, self._egress_proxy
        except ValueError:  # the transport says what is wrong with it
            pass
        return self._sessions.guarded, None


class BeginningReader:
    """Reads `MAX_REPLY` bytes of a response, and one more if there are more, in whatever pieces."""

    is_stream = is_complete = False  # its time ends with the call's time

    def __init__(self) -> None:
        self.is_done = False
        self.held_bytes = 0
        self._held = bytearray()

    def feed(self, piece: bytes) -> None:
        """Keep of a piece what is in the beginning."""
        self._held += piece[: MAX_REPLY + 1 - len(self._held)]
        self.is_done = len(self._held) > MAX_REPLY

    def body(self) -> bytes:
        """Return the beginning."""
        return bytes(self._held)


class _DiscreetClient:
    """Says of a connection that failed only that it did.

    Whether a name exists, a port is closed or a packet was dropped is nobody's business whom the
    operator lets call an internal host.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request; raise what the client raises."""
        try:
            return await self._client.post(url, headers, body)
        except (AddressRefused, UntrustedPeer):
            raise
        except NotConnected:
            raise NotConnected("no connection") from None


def _request(endpoint: Endpoint, body: bytes, message_id: str, signing: EndpointSigning) -> Request:
    given = endpoint.secret
    secrets = (given.get_secret_value(),) if given else signing.secrets
    fields = signature_fields([*map(signing_key, secrets)], body, message_id, int(signing.at))
    own = {name: value.get_secret_value() for name, value in endpoint.headers.items()}
    return Request(endpoint.url, own | fields, body, more_secrets=_masked(own.values()))


def _away(error: RequestUnanswered, *, may_have_acted: bool) -> EndpointAway:
    if error.response is None:
        return EndpointAway(error.detail, "unreachable", may_have_acted=may_have_acted)
    reasons: dict[int, WaitReason] = {429: "rate_limited", 503: "overloaded", 529: "overloaded"}
    reason = reasons.get(error.response.status, "error")
    return EndpointAway(error.detail, reason, retry_after_s(error.response.fields))


def _masked(values: Iterable[str]) -> tuple[str, ...]:
    """Return what an error must not repeat: values, and tokens in them such as after `Bearer`.

    Shorter ones are no secrets, and to mask them would make an error unreadable.
    """
    whole = (secret for secret in values if len(secret) >= SHORTEST_SECRET)
    parts = (
        part
        for secret in whole
        for part in (secret, *secret.split())
        if len(part) >= SHORTEST_SECRET
    )
    return tuple(sorted(parts, key=len, reverse=True))


@value(slots=True)
class Sessions:
    """One session that checks every address, and one for names that the operator allows."""

    guarded: aiohttp.ClientSession
    unguarded: aiohttp.ClientSession


@asynccontextmanager
async def open_endpoints(
    signing_of: SigningOf,
    *,
    allowed: str = "",
    egress_proxy: SecretStr | None = None,
    resolver: AbstractResolver | None = None,
) -> AsyncIterator[GuardedClient]:
    """Open a client for endpoints at public addresses, and at what `AllowedTargets` reads.

    Connections are not reused, so that the address is checked for every request. With
    `egress_proxy` the proxy checks it, except for what is allowed by name and for addresses in
    URLs. No other proxy is used, whatever the environment says.
    """
    targets = AllowedTargets.parse(allowed)
    proxy = proxy_url(egress_proxy.get_secret_value()) if egress_proxy else None
    async with (
        open_session(
            kept_s=0,
            resolver=resolver or GuardedResolver(),
            socket_factory=partial(guarded_socket, targets),
        ) as guarded,
        open_session(kept_s=0, resolver=resolver) as unguarded,
    ):
        yield GuardedClient(Sessions(guarded, unguarded), signing_of, targets, proxy)


def signature_fields(
    keys: Sequence[bytes], body: bytes, message_id: str, timestamp: int
) -> dict[str, str]:
    """Return the header fields of Standard Webhooks, with a signature under each key."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(key, content, "sha256") for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            f"v1,{base64.b64encode(digest).decode()}" for digest in digests
        ),
    }
