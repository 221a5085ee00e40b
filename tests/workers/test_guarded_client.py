"""What is not public is reached only if the operator allows it, by name, network and port."""

import time
from collections.abc import Mapping

import pytest
from pydantic import SecretStr, ValidationError
from standardwebhooks import Webhook

from app.contract.endpoints import AllowedTargets, Endpoint
from app.contract.errors import Unavailable
from app.settings import Settings
from app.store.signing_secrets import EndpointSigning
from tests.local_endpoint import (
    SECRET,
    THIS_MACHINE,
    FixedResolver,
    answering_with,
    endpoint,
    signing_of,
)
from workers.outbound.guarded_client import (
    MAX_REPLY,
    BeginningReader,
    EndpointUnavailable,
    open_endpoints,
)
from workers.outbound.transport import ConnectionBroken, Request, RetryPolicy, Transport

OWN = "whsec_" + "QUFB" * 10
ANSWER = answering_with("yes")


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_allowed"),
    [
        ("hooks.internal", "hooks.internal", 80, True),
        ("hooks.internal", "HOOKS.internal.", 8443, True),
        ("hooks.internal", "a.hooks.internal", 80, False),
        ("hooks.internal:8080", "hooks.internal", 8080, True),
        ("hooks.internal:8080", "hooks.internal", 80, False),
        ("*.corp.example", "a.b.corp.example", 443, True),
        ("*.corp.example", "corp.example", 443, False),
        ("*.corp.example", "evilcorp.example", 443, False),
        ("a, b:1 localhost", "localhost", 9, True),
    ],
)
def test_names(allowed: str, host: str, port: int, is_allowed: bool) -> None:
    assert AllowedTargets.parse(allowed).has_name(host, port) is is_allowed


@pytest.mark.parametrize(
    ("allowed", "address", "port", "is_allowed"),
    [
        ("10.2.0.0/16", "10.2.3.4", 80, True),
        ("10.2.0.0/16", "10.3.3.4", 80, False),
        ("10.2.0.0/16:443", "10.2.3.4", 443, True),
        ("10.2.0.0/16:443", "10.2.3.4", 80, False),
        ("127.0.0.1", "127.0.0.2", 80, False),
        ("fd00::/8", "fd00::1", 80, True),
        ("[fd00::/8]:443", "fd00::1", 80, False),
        ("[::1]:9000", "::1", 9000, True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", 80, False),
        ("fe80::/10", "fe80::1%eth0", 80, True),
        ("10.0.0.0/8", "no address", 80, False),
    ],
)
def test_networks(allowed: str, address: str, port: int, is_allowed: bool) -> None:
    assert AllowedTargets.parse(allowed).has_address(address, port) is is_allowed


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "a:0", "a:99999", "http://a", "a/b", "*", "a:b:c"])
def test_a_setting_that_cannot_be_read_is_refused(entry: str) -> None:
    with pytest.raises(ValidationError, match=r"outbound_allow[\s\S]*(is no|not of the form)"):
        Settings(outbound_allow=f"good.internal {entry}")


@pytest.mark.parametrize(
    ("allowed", "is_reached"),
    [
        ("", False),
        ("127.0.0.1", True),
        ("127.0.0.0/8:PORT", True),
        ("127.0.0.1:1", False),
        ("hooks.internal", True),
        ("hooks.internal:PORT", True),
        ("hooks.internal:1", False),
        ("other.internal", False),
    ],
)
async def test_an_internal_endpoint_is_called_only_if_allowed(
    allowed: str, is_reached: bool
) -> None:
    async with endpoint(ANSWER) as (url, asked, _):
        port = url.split(":")[2].partition("/")[0]
        there = Endpoint(url=f"http://hooks.internal:{port}/check")
        resolver = FixedResolver("127.0.0.1")
        given = allowed.replace("PORT", port)
        async with open_endpoints(signing_of, allowed=given, resolver=resolver) as client:
            if is_reached:
                assert await client.post(there, b"{}", "key") == b"yes"
            else:
                with pytest.raises(EndpointUnavailable, match="no public address"):
                    await client.post(there, b"{}", "key")
        assert len(asked) == is_reached


async def test_an_error_does_not_tell_an_internal_name_from_an_unknown_one() -> None:
    details = []
    for host in ("localhost", "nowhere.invalid"):
        async with open_endpoints(signing_of) as client:
            with pytest.raises(EndpointUnavailable) as refused:
                await client.post(Endpoint(url=f"http://{host}/"), b"{}", "key")
        details.append((type(refused.value), refused.value.detail.replace(host, "HOST")))
    assert details == [(EndpointUnavailable, "HOST is unreachable: it has no public address")] * 2


async def test_an_error_does_not_tell_a_closed_port_of_an_allowed_name_from_an_unknown_name() -> (
    None
):
    details = []
    for resolver in (FixedResolver("127.0.0.1"), None):
        allowed = "nowhere.invalid"
        async with open_endpoints(signing_of, allowed=allowed, resolver=resolver) as client:
            there = Endpoint(url="http://nowhere.invalid:9/", timeout_s=10)
            with pytest.raises(EndpointUnavailable) as refused:
                await client.post(there, b"{}", "key")
        details.append(refused.value.detail.partition(";")[0])
    assert details == ["nowhere.invalid:9 is unreachable: no connection"] * 2


async def test_a_call_has_the_headers_of_its_endpoint_and_is_signed_with_its_own_secret() -> None:
    async with endpoint(ANSWER) as (url, asked, client):
        headers = {"Authorization": SecretStr("Bearer 1"), "User-Agent": SecretStr("mine")}
        there = Endpoint(url=url, headers=headers, secret=SecretStr(OWN))
        await client.post(there, b"{}", "key")
    (request,) = asked
    assert (request.headers["authorization"], request.headers["user-agent"]) == ("Bearer 1", "mine")
    assert Webhook(OWN).verify(b"{}", dict(request.headers)) == {}


async def test_calls_and_webhooks_are_signed_at_the_time_of_redis_not_of_the_machine() -> None:
    async def two_hours_ahead(_tenant: str, _url: str) -> EndpointSigning:
        return EndpointSigning((SECRET,), time.time() + 7200)

    async with (
        endpoint(ANSWER) as (url, asked, _),
        open_endpoints(two_hours_ahead, allowed=THIS_MACHINE) as client,
    ):
        for secret in (None, SecretStr(OWN)):
            await client.post(Endpoint(url=url, secret=secret), b"{}", "key")
            await client.deliver(Endpoint(url=url, secret=secret), b"{}", "msg_1", "default")
    ahead_s = [int(it.headers["webhook-timestamp"]) - time.time() for it in asked]
    assert len(ahead_s) == 4
    assert all(7000 < it < 7300 for it in ahead_s)


async def test_a_call_waits_for_redis_and_is_sent_once() -> None:
    outages = 3

    async def away_at_first(tenant: str, url: str) -> EndpointSigning:
        nonlocal outages
        outages -= 1
        if outages >= 0:
            raise Unavailable("Redis is unreachable")
        return await signing_of(tenant, url)

    async with endpoint(ANSWER) as (url, asked, _):
        async with open_endpoints(away_at_first, allowed=THIS_MACHINE) as client:
            assert await client.post(Endpoint(url=url, timeout_s=60), b"{}", "key") == b"yes"
        assert len(asked) == 1


@pytest.mark.parametrize("said", ["no Bearer canary-4711", "canary-4711 has expired"])
async def test_an_error_does_not_repeat_the_secrets_of_the_call(said: str) -> None:
    said = f"{said} {said} canary-4711"
    async with endpoint(answering_with({"message": said}, 401)) as (url, _, client):
        there = Endpoint(url=url, headers={"Authorization": SecretStr("Bearer canary-4711")})
        with pytest.raises(EndpointUnavailable) as refused:
            await client.post(there, b"{}", "key")
        answer = await client.deliver(there, b"{}", "msg_1", "default")
    for detail in (refused.value.detail, answer.detail):
        assert "answered 401" in detail
        assert "canary" not in detail


class ResponseInPieces:
    """A client whose one response, a 200, arrives in these pieces and then breaks off."""

    def __init__(self, *sizes: int) -> None:
        self.status = 200
        self.fields: Mapping[str, str] = {}
        self.is_whole = False
        self._sizes = list(sizes)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> "ResponseInPieces":
        """Return itself."""
        return self

    async def read(self) -> bytes:
        """Return the next piece."""
        if not self._sizes:
            raise ConnectionBroken
        return b"x" * self._sizes.pop(0)

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "sizes",
    [
        [MAX_REPLY + 1],
        [1_000_000],
        [1, 300_000],
        [MAX_REPLY, 1],
        [MAX_REPLY, 1_000_000],
        [100_000] * 3,
    ],
)
async def test_a_beginning_is_read_in_whatever_pieces_it_arrives(sizes: list[int]) -> None:
    once = RetryPolicy(total_s=30, connect_s=5, tries=1)
    attempts = Transport(ResponseInPieces(*sizes), once, MAX_REPLY).step("key")
    request = Request("https://tools.example.com", {}, b"{}")
    assert await attempts.post(request, open_reader=BeginningReader) == b"x" * (MAX_REPLY + 1)
