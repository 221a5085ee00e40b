"""The processes of a service: their settings as environment variables, start and shutdown."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.cli.contract_client import ContractClient, ServiceFailed
from app.contract.offers import Readiness
from app.local.embedded import EmbeddedRedis
from app.local.supervisor import MARGIN_S, Emit, Interrupts, Program, Supervisor
from app.settings import SERVER, ModelServer, Settings


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Return the variables from which another process reads the same settings, with secrets."""
    return {name: _written(value) for name, value in variables_of(settings) if value is not None}


def _written(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def variables_of(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield every variable with its value, None if it is not set."""
    for name in Settings.model_fields:
        if name == "providers":
            yield from servers_of(settings.providers)
        else:
            yield f"HONE_{name.upper()}", getattr(settings, name)


def servers_of(servers: Mapping[str, ModelServer]) -> Iterator[tuple[str, str | SecretStr | None]]:
    """Yield the two variables of each server."""
    for name, server in servers.items():
        yield SERVER.format(name.upper(), "BASE_URL"), server.base_url
        yield SERVER.format(name.upper(), "API_KEY"), server.api_key


SENDER = "workers.webhooks"


def programs(settings: Settings) -> tuple[Program, ...]:
    """Return an API, a worker, and what sends webhooks, if these settings allow any.

    They run with exactly these settings.
    """
    environment = os.environ | environment_of(settings) | {"PYTHONUNBUFFERED": "1"}
    if settings.log_format == "auto" and sys.stdout.isatty():
        environment["HONE_LOG_FORMAT"] = "text"  # the processes write to a pipe
    modules = {"api": ("app.cli", "api"), "worker": ("workers",)}
    if settings.secret_key:
        modules["webhooks"] = (SENDER,)
    host = settings.metrics_address.rpartition(":")[0]
    ports = (settings.metrics_at(nth)[1] for nth in range(len(modules)))
    addresses = (f"{host}:{port}" if port else "" for port in ports)
    return tuple(
        Program(name, (*python(), "-m", *module), environment | {"HONE_METRICS_ADDRESS": address})
        for (name, module), address in zip(modules.items(), addresses, strict=True)
    )


def python() -> tuple[str, ...]:
    """Return the command of this interpreter, with the same import path as this process.

    A directory `app` in the current directory must not hide Hone's package.
    """
    return (sys.executable,) if str(Path.cwd()) in sys.path else (sys.executable, "-P")


def check_port(host: str, port: int, setting: str = "HONE_PORT") -> None:
    """Raise ServiceFailed if a server cannot listen there now; `setting` is what gives the port."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServiceFailed(
                f"cannot listen on {host}, port {port}: {error.strerror}. Set another {setting}."
            ) from None


def free_port(host: str) -> int:
    """Return a port that is free now."""
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def url_of(settings: Settings) -> str:
    """Return the URL of the API on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _nothing() -> None: ...


def _check_redis(url: str) -> None:
    """Raise ServiceFailed for a Redis that no process could use; an absent Redis may come."""
    from redis.exceptions import RedisError  # noqa: PLC0415

    from app.store import UnusableRedis, check_redis  # noqa: PLC0415

    try:
        asyncio.run(check_redis(url))
    except UnusableRedis as error:
        raise ServiceFailed(str(error)) from None
    except RedisError:
        pass


REWRITE_AFTER_S = 3_600.0
"""Seconds after a deletion in which the append-only file of the embedded Redis is rewritten."""


@contextlib.contextmanager
def service(settings: Settings, emit: Emit, interrupts: Interrupts) -> Iterator[Supervisor]:
    """Run an API and a worker, and a Redis unless the settings have one; end them on exit.

    Raises ServiceFailed if the port is taken, and what EmbeddedRedis raises.
    """
    # Importing them takes time, which every other command would spend too.
    from redis import Redis  # noqa: PLC0415

    from app.store.administration import LogRewriter  # noqa: PLC0415

    check_port(settings.host, settings.port)
    redis = None if settings.redis_url else EmbeddedRedis(settings.data_dir)
    with redis or contextlib.nullcontext(), contextlib.ExitStack() as stack:
        url = redis.url if redis else settings.redis_url
        _check_redis(url)
        rewriting = (
            LogRewriter(stack.enter_context(Redis.from_url(url)), REWRITE_AFTER_S).tick
            if redis
            else _nothing
        )
        with Supervisor(
            programs(settings.model_copy(update={"redis_url": url})),
            emit,
            redis=redis,
            grace_s=settings.grace_s + MARGIN_S,
            in_a_hurry=lambda: interrupts.in_a_hurry,
            meanwhile=rewriting,
        ) as supervisor:
            yield supervisor


def is_working(readiness: Readiness | int) -> bool:
    """Return whether a server has a worker; one that refuses requests without a key may have."""
    return readiness.workers > 0 if isinstance(readiness, Readiness) else readiness in {401, 403}


def wait_until_ready(client: ContractClient, meanwhile: Callable[[], None]) -> None:
    """Return once the API responds and a worker runs; `meanwhile` is called in between."""
    while not is_working(client.readiness()):
        meanwhile()
        time.sleep(0.1)


MOST_FAILED_STARTS = 3


def look_while_starting(supervisor: Supervisor) -> None:
    """Start processes that are due; raise ServiceFailed for one that ends again and again."""
    supervisor.tick()
    for keeper in supervisor.keepers:
        if keeper.failures >= MOST_FAILED_STARTS:
            raise ServiceFailed(f"the {keeper.name} cannot start: see what it says above")


class CrashWatch:
    """Watches a service in which a crash is an error, not a reason to restart."""

    def __init__(self) -> None:
        self._log: deque[str] = deque(maxlen=30)

    def emit(self, name: str, line: str) -> None:
        """Keep a line of output, for the message about a crash."""
        self._log.append(f"{name}: {line}")

    def look(self, supervisor: Supervisor) -> None:
        """Raise ServiceFailed, with the last lines of output, if a process has crashed."""
        supervisor.tick()
        for keeper in supervisor.keepers:
            if keeper.crashes:
                raise ServiceFailed("\n".join([f"{keeper.name} has crashed:", *self._log]))
