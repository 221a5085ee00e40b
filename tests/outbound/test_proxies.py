"""Which calls go through a proxy, and which never do."""

import os
import ssl
from collections.abc import Iterator, MutableMapping

import pytest
from pydantic import SecretStr, ValidationError

from app.contract.endpoints import Endpoint
from app.settings import Settings
from tests.local_endpoint import FixedResolver, signing_of
from tests.outbound.conftest import OpenClient
from tests.outbound.raw_server import RawServer, raw_server, tunnel
from tests.outbound.test_http_client import DONE, posted
from workers.outbound.guarded_client import EndpointUnavailable, may_be_public, open_endpoints
from workers.outbound.transport import NotConnected, proxies_of_environment, proxy_url

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
REFUSES = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def environment() -> Iterator[MutableMapping[str, str]]:
    """The environment of this process without proxies, which is restored afterwards."""
    before = dict(os.environ)
    for name in VARIABLES:
        os.environ.pop(name, None)
        os.environ.pop(name.lower(), None)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


def place(server: RawServer) -> str:
    return server.url.split("/")[2]


async def test_model_calls_go_through_the_proxy_of_the_environment(
    open_client: OpenClient, environment: MutableMapping[str, str]
) -> None:
    async with raw_server(DONE) as proxy:
        environment["HTTP_PROXY"] = f"http://user:pass@{place(proxy)}"
        async with open_client(proxy_of=proxies_of_environment()) as client:
            for _ in range(2):
                assert await posted(client, "http://models.test/v1") == (200, b"done")
        assert proxy.connections == 1
    assert proxy.requests[0].startswith(b"POST http://models.test/v1 HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n" in proxy.requests[0]


async def test_a_proxy_is_asked_for_a_tunnel_to_a_server_with_tls_and_its_refusal_is_named(
    open_client: OpenClient, environment: MutableMapping[str, str]
) -> None:
    async with raw_server(REFUSES) as proxy:
        environment["HTTPS_PROXY"] = place(proxy)
        async with open_client(proxy_of=proxies_of_environment()) as client:
            with pytest.raises(NotConnected, match=r"^its proxy answered 403$"):
                await posted(client, "https://models.test/v1")
    assert proxy.requests[0].startswith(b"CONNECT models.test:443 HTTP/1.1\r\n")


async def test_through_a_tunnel_the_server_itself_is_verified(
    open_client: OpenClient,
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with raw_server(DONE, tls=tls[0]) as server, tunnel(place(server)) as proxy:
        async with open_client(tls=tls[1], proxy_of=lambda _url: proxy_url(proxy)) as client:
            for _ in range(2):
                assert await posted(client, server.url) == (200, b"done")
        assert server.connections == 1


@pytest.mark.parametrize(
    ("host", "is_proxied"),
    [
        ("api.example.com", True),
        ("models.internal", False),
        ("a.models.internal", False),
        ("127.0.0.1", False),
        ("[::1]", False),
        ("localhost", False),
    ],
)
def test_hosts_in_no_proxy_and_this_machine_are_called_directly(
    environment: MutableMapping[str, str], host: str, is_proxied: bool
) -> None:
    environment["HTTPS_PROXY"] = "http://proxy.test:3128"
    environment["NO_PROXY"] = "models.internal"
    assert (proxies_of_environment()(f"https://{host}/v1") is not None) is is_proxied


def test_a_proxy_that_is_none_is_named(environment: MutableMapping[str, str]) -> None:
    environment["HTTPS_PROXY"] = "socks5://proxy.test:1080"
    with pytest.raises(NotConnected, match="HTTPS_PROXY names no HTTP proxy"):
        proxies_of_environment()("https://api.example.com/")


@pytest.mark.parametrize("proxy", ["socks5://proxy.test", "http://a:hush/@b.test", "http://a:1/@b"])
def test_a_setting_that_names_no_proxy_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(ValidationError, match=r"http://proxy\.example:3128") as refused:
        Settings(egress_proxy=SecretStr(proxy))
    assert "hush" not in str(refused.value)


HOSTILE = [
    "127.0.0.1", "localhost", "a.localhost.", "2130706433", "0x7f000001", "127.1", "[::1]", "[::]",
    "0.0.0.0", "[::ffff:127.0.0.1]", "169.254.169.254", "%6cocalhost", "127.0.0.%31",
    "127.0.0.1%00.example.com", "[fe80::1%25lo]",
]  # fmt: skip


async def test_what_a_tenant_names_uses_no_proxy_of_the_environment(
    environment: MutableMapping[str, str],
) -> None:
    async with raw_server(DONE) as proxy:
        for name in VARIABLES[:2]:
            environment[name] = f"http://{place(proxy)}"
        for allowed in ("", "allowed.test"):
            resolver = FixedResolver("127.0.0.1")
            async with open_endpoints(signing_of, allowed=allowed, resolver=resolver) as client:
                for host in ("rebound.test", "allowed.test:9", *HOSTILE):
                    for scheme in ("http", "https"):
                        there = Endpoint(url=f"{scheme}://{host}/", timeout_s=1)
                        with pytest.raises(EndpointUnavailable):
                            await client.post(there, b"{}", "key")
        assert proxy.connections == 0


async def test_the_proxy_for_egress_gets_names_and_no_address_that_is_not_public() -> None:
    async with raw_server(DONE) as proxy:
        egress = SecretStr(f"http://{place(proxy)}")
        async with open_endpoints(signing_of, egress_proxy=egress) as client:
            for host in HOSTILE:
                with pytest.raises(EndpointUnavailable):
                    await client.post(Endpoint(url=f"http://{host}/", timeout_s=1), b"{}", "key")
            assert proxy.connections == 0
            assert await client.post(Endpoint(url="http://hooks.test/a"), b"{}", "key") == b"done"
    assert proxy.requests[0].startswith(b"POST http://hooks.test/a HTTP/1.1\r\n")
    assert may_be_public("8.8.8.8")
