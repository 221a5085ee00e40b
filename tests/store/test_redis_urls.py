"""HONE_REDIS_URL: Sentinels, TLS and users, each with a real server behind it."""

import asyncio
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from app.contract.errors import Unavailable
from app.settings import Settings
from app.store import UnusableRedis, open_store, open_worker_store
from app.store.redis import keys
from app.store.redis.connection import options_of, place_of, worker_client
from tests.store.store_harness import ListQueue, new, started, step

pytestmark = pytest.mark.one_server

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations.md"
SENTINEL_URL = (
    "redis+sentinel://hone:s%40cret@one,two:5000/orders/3"
    "?sentinel_username=watch&sentinel_password=a%26b&health_check_interval=7"
)


def sentinels_of(url: str) -> Sequence[dict[str, Any]]:
    servers: Sequence[dict[str, Any]] = options_of(url)["primaries"].servers
    return servers


def test_a_sentinel_url_names_the_sentinels_the_service_and_both_users() -> None:
    options = options_of(SENTINEL_URL)
    assert (options["username"], options["password"], options["db"]) == ("hone", "s@cret", 3)
    assert options["health_check_interval"] == 7
    assert options["primaries"].of == "orders"
    servers = sentinels_of(SENTINEL_URL)
    assert [(it["host"], it["port"]) for it in servers] == [("one", 26379), ("two", 5000)]
    assert {(it["username"], it["password"]) for it in servers} == {("watch", "a&b")}


def test_tls_counts_for_sentinels_and_servers() -> None:
    url = "rediss+sentinel://one/orders?ssl_ca_certs=/ca.pem&sentinel_ssl_certfile=/own.pem"
    options, (sentinel,) = options_of(url), sentinels_of(url)
    assert options["ssl_ca_certs"] == sentinel["ssl_ca_certs"] == "/ca.pem"
    assert ("ssl_certfile" in options, sentinel["ssl_certfile"]) == (False, "/own.pem")


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("redis+sentinel://one:26379", r"redis\+sentinel://HOST"),
        ("redis+sentinel:///orders", r"redis\+sentinel://HOST"),
        ("unix+sentinel://one/orders", r"redis\+sentinel://HOST"),
        ("redis+sentinel://one/orders/first", "invalid literal"),
        ("redis://one/x", "the database 'x' is not a number"),
        ("http://one", "redis://, rediss://, unix://"),
        ("rediss://one?ssl_ca_cert=/ca.pem", "unexpected keyword argument 'ssl_ca_cert'"),
        ("redis+sentinel://one/orders?sentinel_user=x", "unexpected keyword argument 'user'"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_with_the_reason(url: str, fact: str) -> None:
    with pytest.raises(UnusableRedis, match=f"HONE_REDIS_URL.*{fact}") as refused:
        worker_client(url)
    assert refused.value.__cause__ is None  # the log would have it twice


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "redis+cluster"])
@pytest.mark.parametrize("password", ["hush/hush", "12/hush", "hush#hush", "12#hush", "hush?hush"])
def test_what_is_wrong_with_a_password_is_said_without_it(scheme: str, password: str) -> None:
    with pytest.raises(UnusableRedis, match="HONE_REDIS_URL cannot be used") as refused:
        worker_client(f"{scheme}://hone:{password}@one:6379/0")
    assert "hush" not in str(refused.value)


def test_where_a_url_points_is_said_without_its_secrets() -> None:
    assert place_of(SENTINEL_URL) == "one,two:5000/orders/3"
    assert place_of("unix:///run/redis.sock?password=x") == "/run/redis.sock"


async def test_what_each_sentinel_answered_is_in_the_error(redis_url: str, tmp_path: Path) -> None:
    async with tcp(redis_url) as port:  # a Redis is no Sentinel
        url = f"redis+sentinel://127.0.0.1:{port},127.0.0.1:1/orders"
        async with worker_client(url) as client:
            with pytest.raises(RedisConnectionError) as refused:
                await client.ping()
        settings = Settings(redis_url=url, redis_timeout_s=60)
        with pytest.raises(Unavailable):
            async with open_store(settings, ListQueue()):
                pass
    assert re.search(rf"for 'orders' \(127.0.0.1:{port}: unknown command", str(refused.value))
    assert re.search(r"127.0.0.1:1: Error .* connecting", str(refused.value))


@asynccontextmanager
async def tcp(unix_url: str, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Forward a free port to a Unix socket, with TLS if there is a context."""
    path = unquote(urlsplit(unix_url).path)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_unix_connection(path)
        ways = (forward(reader, to_redis), forward(from_redis, writer))
        await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def certificate(directory: Path, name: str, host: str) -> str:
    """Return the path of a self-signed certificate with its key for one host."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl, which makes certificates: install openssl")
    path = directory / f"{name}.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    names = ["-addext", f"subjectAltName={host}", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    with path.open("a") as file:
        file.write(Path(f"{path}.crt").read_text())
    return str(path)


async def test_tls_with_a_client_certificate_reaches_redis_and_a_wrong_one_does_not(
    redis_url: str, tmp_path: Path
) -> None:
    server = certificate(tmp_path, "server", "IP:127.0.0.1")
    client = certificate(tmp_path, "client", "DNS:client")
    other = certificate(tmp_path, "other", "DNS:elsewhere")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client)
    context.load_cert_chain(server)
    context.verify_mode = ssl.CERT_REQUIRED
    async with tcp(redis_url, context) as port:

        async def answers(ca: str, own: str, host: str = "127.0.0.1") -> bool:
            query = f"ssl_ca_certs={quote(ca)}&ssl_certfile={quote(own)}&ssl_keyfile={quote(own)}"
            settings = Settings(redis_url=f"rediss://{host}:{port}/0?{query}", redis_timeout_s=60)
            try:
                async with open_store(settings, ListQueue()) as store:
                    await store.administration.workers()
                async with open_worker_store(settings, ListQueue(), "worker-1") as worker:
                    await worker.recover(include_queued=False)
            except Unavailable:
                return False
            return True

        assert await answers(server, client)
        assert not await answers(other, client)  # another authority
        assert not await answers(server, other)  # a certificate that the server does not know
        assert not await answers(server, client, "localhost")  # another name


class OtherQueue(ListQueue):
    """A queue whose key is none of RQ."""

    key = keys.Key("test:queue")


async def test_a_user_with_the_access_rules_of_the_page_writes_and_reads(
    redis: Redis, redis_url: str
) -> None:
    [line] = re.findall(r"^ACL SETUSER hone (.*)$", PAGE.read_text(), re.MULTILINE)
    rules = line.replace("PASSWORD", "s@cret").split()
    await redis.execute_command("ACL SETUSER", "hone", "reset", *rules)  # type: ignore[no-untyped-call]
    await redis.acl_log_reset()
    url = redis_url.replace("unix://", "unix://hone:s%40cret@")
    settings = Settings(redis_url=url, redis_timeout_s=60)
    async with (
        open_store(settings, ListQueue()) as store,
        open_worker_store(settings, ListQueue(), "worker-1") as worker,
    ):
        held = await started(store, worker)
        await held.journal.append([step()])
        await worker.recover(include_queued=True)
        await worker.renew()
        assert await store.administration.workers() == 1
        with pytest.raises(RedisError):  # the rules are in force: this is no key of RQ or Hone
            await submit_elsewhere(settings)
    denied = {entry["object"] for entry in await redis.acl_log()}
    # redis-py also tries CLIENT SETINFO, which Redis 6.2 does not have.
    assert denied - {"client"} == {OtherQueue.key}


async def submit_elsewhere(settings: Settings) -> None:
    async with open_store(settings, OtherQueue()) as store:
        await store.create(new(), None)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_cluster_url_names_nodes_and_how_to_reach_the_one_with_the_keys(scheme: str) -> None:
    url = f"{scheme}+cluster://hone:s%40cret@one,two:7000?health_check_interval=7"
    options = options_of(url)
    kind = options.pop("connection_class")
    connection = kind(**options)
    assert isinstance(connection, SSLConnection) == (scheme == "rediss")
    assert (connection.username, connection.password) == ("hone", "s@cret")
    nodes = options["primaries"].servers
    assert [(it["host"], it["port"]) for it in nodes] == [("one", 6379), ("two", 7000)]
    assert {(it["username"], it["password"]) for it in nodes} == {("hone", "s@cret")}
    (packed,) = connection.pack_command("HGETALL", keys.SUMMARY + "ref_1")
    assert b"hone:{c00}:refinement:ref_1" in packed


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster://one/a", "unix+cluster://a"])
def test_a_cluster_url_without_nodes_or_with_no_number_of_a_cell_is_refused(url: str) -> None:
    with pytest.raises(UnusableRedis, match=r"expected redis\+cluster://HOST"):
        options_of(url)
