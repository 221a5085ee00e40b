"""CPU per model call of each HTTP client at 500 calls at once, against a server in another process.

    python -m benchmarks.transport [--calls 10000] [--at-once 500] [--latency-ms 200] [--clients 1]
                                   [--tls] [--streamed] [--only NAME ...]

Each run is a separate process; it prints medians of three, taken in turn. `raw` only sends and
receives bytes: its rate is the server's ceiling, best measured with `--latency-ms 0 --clients 3`.
`hone` is the whole adapter on aiohttp: prompt to request, reply to text, usage, every limit. With
`--streamed` somebody watches what the adapter's calls write, in 200 words or so, a chunk each.
`--tls` needs the program openssl, and leaves out `raw` and those that do not ask the system which
certificates it trusts.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from urllib.parse import urlsplit

import aiohttp
import httpx
import uvloop
from httpx_aiohttp import AiohttpTransport

from workers.engine.prompts import Prompt, Task, Write
from workers.models.openai import OpenAI
from workers.models.port import ModelCall
from workers.models.remote import Remote
from workers.outbound.transport import (
    AiohttpClient,
    HttpClient,
    RetryPolicy,
    Transport,
    open_session,
)

BODY = json.dumps(
    {
        "model": "bench",
        "messages": [
            {"role": "system", "content": "You write one text that does what the task asks. " * 10},
            {"role": "user", "content": "Explain our refund policy to a customer. " * 40},
        ],
        "max_tokens": 4096,
    }
).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer key"}

SendRequest = Callable[[str], Awaitable[int]]


@asynccontextmanager
async def with_aiohttp(_at_once: int) -> AsyncIterator[SendRequest]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def ask(url: str) -> int:
            async with session.post(
                url, data=BODY, headers=HEADERS, allow_redirects=False
            ) as reply:
                return len(await reply.read())

        yield ask


@asynccontextmanager
async def with_httpx_on_aiohttp(_at_once: int) -> AsyncIterator[SendRequest]:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    transport = AiohttpTransport(client=session)
    async with httpx.AsyncClient(transport=transport, timeout=120) as client:

        async def ask(url: str) -> int:
            return len((await client.post(url, content=BODY, headers=HEADERS)).content)

        yield ask


@asynccontextmanager
async def with_httpx(at_once: int) -> AsyncIterator[SendRequest]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=at_once)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def ask(url: str) -> int:
            return len((await client.post(url, content=BODY, headers=HEADERS)).content)

        yield ask


@asynccontextmanager
async def with_bytes(_at_once: int) -> AsyncIterator[SendRequest]:
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(BODY),
        BODY,
    )

    async def ask(url: str) -> int:
        port = urlsplit(url).port
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.rsplit(b":", 1)[1])
        await reader.readexactly(length)
        idle.append((reader, writer))
        return length

    yield ask
    for _, writer in idle:
        writer.close()


@asynccontextmanager
async def with_hone(_at_once: int) -> AsyncIterator[SendRequest]:
    async with open_session() as session:
        yield adapter_on(AiohttpClient(session, connect_s=10))


IS_STREAMED = "BENCHMARK_STREAMS"


class TextWatcher:
    """Somebody who follows a text while it is written."""

    is_watched = True

    def follow(self, text: Callable[[], str]) -> None:
        """Begin with another try."""


def adapter_on(client: HttpClient) -> SendRequest:
    """Return the whole adapter on an HTTP client."""
    messages = json.loads(BODY)["messages"]
    prompt = Prompt("write", 1, messages[0]["content"], messages[1]["content"])
    prompt_request = Write(Task(None, None, (), "482913"))
    follower = TextWatcher() if IS_STREAMED in os.environ else None
    call = ModelCall("bench", prompt, prompt_request, "ref_1/iterations/1/draft", follower=follower)
    transport = Transport(client, RetryPolicy(total_s=120), 4 * 1024 * 1024)

    @cache
    def remote(url: str) -> Remote:
        return Remote("local", OpenAI(url.removesuffix("/chat/completions"), "key"), transport)

    async def ask(url: str) -> int:
        return len((await remote(url).complete(call)).text)

    return ask


CLIENTS = {
    "raw": with_bytes,
    "aiohttp": with_aiohttp,
    "hone": with_hone,
    "httpx on aiohttp": with_httpx_on_aiohttp,
    "httpx": with_httpx,
}

OVER_TLS = ("aiohttp", "hone")


async def drive(client: str, url: str, calls: int, at_once: int) -> dict[str, float]:
    """Make the calls and return CPU milliseconds per call, calls per second and peak MB."""
    async with CLIENTS[client](at_once) as ask:
        await asyncio.gather(*[ask(url) for _ in range(at_once)])
        remaining = iter(range(calls))
        began, cpu = time.perf_counter(), time.process_time()

        async def caller() -> None:
            for _ in remaining:
                await ask(url)

        await asyncio.gather(*[caller() for _ in range(at_once)])
        seconds = time.perf_counter() - began
        return {
            "cpu_ms": (time.process_time() - cpu) * 1000 / calls,
            "per_s": calls / seconds,
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def run(
    client: str,
    url: str,
    calls: int,
    at_once: int,
    clients: int,
    env: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, float]:
    """Call the server from `clients` processes; CPU is the mean, calls per second the sum."""
    command = [sys.executable, "-m", "benchmarks.transport", "--drive", client, "--url", url]
    command += ["--calls", str(calls // clients), "--at-once", str(at_once // clients)]
    environment = {**os.environ, **env}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(clients)
    ]
    results = [json.loads(process.communicate()[0]) for process in processes]
    return {
        "cpu_ms": statistics.mean(result["cpu_ms"] for result in results),
        "per_s": sum(result["per_s"] for result in results),
        "mb": max(result["mb"] for result in results),
    }


def compare(arguments: argparse.Namespace) -> None:
    """Print the table: medians of three runs of each client, in turn."""
    env = {IS_STREAMED: "1"} if arguments.streamed else {}
    names = arguments.only or (OVER_TLS if arguments.tls else CLIENTS)
    sizes = (arguments.calls, arguments.at_once, arguments.clients)
    with TemporaryDirectory() as directory, ExitStack() as stack:
        options = ["--latency-ms", str(arguments.latency_ms)]
        if arguments.tls:
            certificate = self_signed(Path(directory))
            options += ["--certificate", certificate]
            env["SSL_CERT_FILE"] = certificate
        command = [sys.executable, "-m", "benchmarks.model_server", *options]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        assert server.stdout
        scheme, port = "https" if arguments.tls else "http", int(server.stdout.readline())
        url = f"{scheme}://127.0.0.1:{port}/v1/chat/completions"
        rounds = [{name: run(name, url, *sizes, env) for name in names} for _ in range(3)]
    print(f"{'client':18}{'CPU ms/call':>12}{'calls/s':>10}{'peak MB':>9}")
    for name in names:
        cpu_ms, per_s, mb = (
            statistics.median(it[name][figure] for it in rounds)
            for figure in ("cpu_ms", "per_s", "mb")
        )
        print(f"{name:18}{cpu_ms:12.3f}{per_s:10.0f}{mb:9.0f}")


def self_signed(directory: Path) -> str:
    """Return the path of a self-signed certificate for 127.0.0.1, with its key."""
    path, key = directory / "certificate.pem", directory / "key.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=benchmark"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(path)]
    subprocess.run(["openssl", "req", *options, *named], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return str(path)


def main() -> None:
    """Compare the clients, or run as one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--latency-ms", type=float, default=200)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--streamed", action="store_true")
    parser.add_argument("--only", action="append", choices=CLIENTS)
    parser.add_argument("--drive", choices=CLIENTS)
    parser.add_argument("--url")
    arguments = parser.parse_args()
    if arguments.drive:
        driving = drive(arguments.drive, arguments.url, arguments.calls, arguments.at_once)
        print(json.dumps(uvloop.run(driving)))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
