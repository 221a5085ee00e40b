"""`hone doctor`: examines a service and its configuration, and says what to change."""

import asyncio
import difflib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
from dotenv import dotenv_values

from app.cli.access_commands import on_cells
from app.cli.contract_client import CliError, ContractClient, is_local
from app.cli.display import say
from app.cli.processes import python, url_of, variables_of
from app.cli.root import app, console, read_settings
from app.contract.access import OPERATOR
from app.contract.offers import Readiness
from app.contract.providers import PROVIDERS, added, provider_of
from app.local.embedded import EmbeddedRedisError, RedisNotFound
from app.settings import PROVIDER_VARIABLE, Settings, listens_on_loopback
from app.telemetry.traces import ENDPOINTS, export_flaw, wants_traces
from hone import ApiError, HoneError

if TYPE_CHECKING:
    from rich.console import Console

    from app.store import Store
    from app.store.administration import ArchiveFacts, ServerFacts
    from app.store.cells import Cells

MINIMUM_FREE = 0.1  # share of a disk
LARGEST_SKEW_S = 1.0
NEARLY_FULL = 0.6  # share of maxmemory
STYLES = {"ok": "green", "warning": "yellow", "failure": "bold red"}
OF_THE_COMMAND_LINE = frozenset({"HONE_SERVER", "HONE_MCP_TOKEN"})
RECENTLY_USED = 5  # at most so many models beside the default one are called
TIMEOUT_S = 120
READY_S = 10.0
"""The API gives Redis less than that."""


class Level(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Diagnosis:
    """A finding about one subject, and advice on what to change, if anything."""

    subject: str
    level: Level
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Diagnosis:
    """Return a finding that needs no change."""
    return Diagnosis(subject, Level.OK, text)


def warning(subject: str, text: str, advice: str) -> Diagnosis:
    """Return a finding about a service that works, but not reliably."""
    return Diagnosis(subject, Level.WARNING, text, advice)


def failure(subject: str, text: str, advice: str) -> Diagnosis:
    """Return a finding that keeps refinements from being accepted or played, or may lose them."""
    return Diagnosis(subject, Level.FAILURE, text, advice)


@dataclass(frozen=True)
class Seen:
    """Facts from the store of a service."""

    server: "ServerFacts"
    keys: int
    """API keys that work, those that are refused not counted."""
    refused: int
    """API keys made with another HONE_SECRET_KEY than that of this machine."""
    broken: tuple[str, ...]
    """Sentences about models that take no calls with the keys of this machine."""
    used: tuple[str, ...]
    archive: "ArchiveFacts"
    archive_error: str
    """Why this machine cannot read it, if that is so."""
    refusal: str
    """Why Redis does not take writes, if that is so."""


@app.command()
def doctor(
    models: Annotated[
        bool,
        typer.Option("--models", help="Also make one tiny call to each model in use; it costs."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnoses as JSON.")] = False,
) -> None:
    """Examine a service; say what to change.

    It looks at Redis, workers, models, configuration, disk and access.

    Exit code: 0 if refinements are accepted and played, 1 if something prevents that.
    """
    settings = read_settings()
    diagnoses = list(examine(settings, os.environ, calls_models=models))
    if as_json:
        print(json.dumps([asdict(diagnosis) for diagnosis in diagnoses], indent=2))
    else:
        show_diagnoses(diagnoses, console())
    raise typer.Exit(int(any(diagnosis.level is Level.FAILURE for diagnosis in diagnoses)))


def show_diagnoses(diagnoses: Sequence[Diagnosis], console: "Console") -> None:
    """Print diagnoses, one per line, and below each what to change."""
    for diagnosis in diagnoses:
        say(
            console,
            f"{diagnosis.level:<8} {diagnosis.subject:<14} {diagnosis.text}",
            STYLES[diagnosis.level],
            wraps=True,
        )
        if diagnosis.advice:
            say(console, f"{'':<24}-> {diagnosis.advice}", wraps=True)


def examine(
    settings: Settings, environ: Mapping[str, str], *, calls_models: bool
) -> Iterator[Diagnosis]:
    """Yield what there is to say; only `calls_models` may cost anything.

    Without HONE_REDIS_URL the Redis of the data directory is started for this, unless it runs.
    """
    yield from _configuration(environ)
    yield from _traces(environ)
    yield from _access_settings(settings)
    found: Sequence[Seen | None] = ()
    try:
        found = on_cells(partial(_see_all, settings))
    except (CliError, RedisNotFound, EmbeddedRedisError) as error:
        yield _without_redis(error, "HONE_REDIS_URL" if settings.redis_url else "HONE_DATA_DIR")
    seen = next((facts for facts in found if facts is not None), None)
    for number, facts in enumerate(found):
        for diagnosis in _cell(facts, settings):
            is_one = len(found) == 1
            subject = diagnosis.subject if is_one else f"cell {number}: {diagnosis.subject}"
            yield replace(diagnosis, subject=subject)
    if seen is not None:
        yield from _keys(seen, settings, environ.get("HONE_SERVER", ""))
    yield from _api(settings)
    yield from _models(settings, seen)
    if calls_models:
        yield from _calls(settings, seen.used if seen else ())
    yield from _disk(settings)


def _without_redis(error: Exception, where: str) -> Diagnosis:
    """Return why Redis cannot be examined; `where` is the variable that says where it is."""
    from app.store import UnusableRedis  # noqa: PLC0415 - importing the store takes time

    cause = error.__cause__
    if isinstance(cause, UnusableRedis):
        return failure("redis", str(error), "")  # which says what to change
    why = f": {cause.__cause__}" if cause and cause.__cause__ else ""
    advice = f"check {where}, a user and a password in it, and that Redis runs"
    return failure("redis", f"{error}{why}", advice)


def _cell(seen: Seen | None, settings: Settings) -> Iterator[Diagnosis]:
    """Yield what there is to say about one cell; None of one that is away."""
    if seen is None:
        text = "it is away: what is in it cannot be read, and keys of idempotency are refused"
        yield failure("redis", text, "check HONE_CELLS_URL and that it runs")
        return
    yield from _redis(seen.server, settings)
    if seen.refusal:  # no worker can renew its lease then
        advice = "free memory or disk of Redis, or connect the replicas it asks for; see its log"
        yield failure("redis", f"{seen.refusal}: refinements stand still", advice)
    else:
        yield from _workers(seen.server)
    yield from _archive(seen, settings)


async def _see_all(settings: Settings, cells: "Cells") -> list[Seen | None]:
    found = dict(await cells.ask(partial(_see, settings)))
    return [found.get(number) for number in range(len(cells.stores))]


async def _see(settings: Settings, store: "Store") -> Seen:
    # Importing them takes time.
    from app.access.keyring import Hashing, secrets_of  # noqa: PLC0415
    from app.queue import worker_key  # noqa: PLC0415
    from app.service.admission import ModelRoles  # noqa: PLC0415
    from app.service.offers import broken  # noqa: PLC0415

    server, keys, limits = await asyncio.gather(
        store.administration.inspect(worker_key), store.access.all(), store.administration.limits()
    )
    by_use = [limit.limit.name for limit in limits if ":" in limit.limit.name]
    working = [key for key in keys if time.time() * 1000 < key.ends_at]
    hashing = Hashing(await secrets_of(settings, store.access)) if working else None
    known = [key for key in working if hashing and hashing.knows(key)]
    model_roles = ModelRoles(settings.model_copy(update={"model": "offline:editor"}))
    return Seen(
        server,
        len(known),
        len(working) - len(known),
        tuple(broken(model_roles, limits)),
        tuple(dict.fromkeys(by_use)),
        await store.administration.archive(),
        await store.archive_error(),
        await store.administration.refusal(),
    )


def known_variables() -> frozenset[str]:
    """Return the name of every variable that Hone reads."""
    of_settings = {name for name, _ in variables_of(Settings.model_construct(providers={}))}
    keys = {
        f"HONE_{provider.key_variable}" for provider in PROVIDERS if provider.base_url is not None
    }
    return frozenset(of_settings | keys | OF_THE_COMMAND_LINE)


def _configuration(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    known, given = known_variables(), {**dotenv_values(".env"), **environ}
    ours = sorted(name for name in given if name.upper().startswith("HONE_"))
    unknown = [
        name for name in ours if name.upper() not in known and not PROVIDER_VARIABLE.match(name)
    ]
    for name in unknown:
        near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.75)
        advice = f"did you mean {near[0]}?" if near else "`hone config` lists all variables"
        yield warning("configuration", f"{name} is not read by Hone", advice)
    if not unknown:
        yield ok("configuration", f"{len(ours)} variables are set, all are known")


def _traces(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Say whether spans are exported; nothing while no variable asks for it."""
    if flaw := export_flaw(environ):
        yield warning("traces", f"not exported: {flaw}", "change the variable")
    elif wants_traces(environ):
        where = next((environ[variable] for variable in ENDPOINTS if environ.get(variable)), None)
        yield ok("traces", f"exported to {where or 'the default address'}")
    elif wants_traces({**dotenv_values(".env"), **environ}):
        text = "OTEL_* variables in .env are not read, only HONE_* are"
        yield warning("traces", text, "set them in the environment")


def _access_settings(settings: Settings) -> Iterator[Diagnosis]:
    if settings.secret_key is None or not settings.secret_key.get_secret_value():
        yield warning(
            "access",
            "HONE_SECRET_KEY is not set: no webhooks, no `http` validators and tools, and whoever"
            " reads Redis can become an administrator",
            'set it to 32 random characters, such as `python -c "import secrets;'
            ' print(secrets.token_urlsafe(24))"`, the same for API and workers',
        )
    if listens_on_loopback(settings.host):
        return
    if settings.auth == "off":
        yield warning(
            "access",
            f"HONE_AUTH is off and the API listens on {settings.host}: whoever reaches it can use"
            " it",
            "remove HONE_AUTH, unless a proxy authenticates every client",
        )
    if not settings.allowed_hosts:
        yield warning(
            "access",
            "HONE_ALLOWED_HOSTS is empty: clients reach the API by IP address only",
            "set it to the names by which clients know this server",
        )


def _redis(server: "ServerFacts", settings: Settings) -> Iterator[Diagnosis]:
    info = server.info
    product = str(info.get("server_name", "redis"))
    number = info.get(f"{product}_version", info["redis_version"])
    yield ok("redis", f"{product} {number}, policy {info['maxmemory_policy']}")
    if server.missing:
        text = f"it does not have {', '.join(server.missing)}, which Hone needs"
        yield failure("redis", text, "let the commands be, or use another Redis")
    yield from _cluster(server)
    yield _persistence(server)
    yield _memory(info)
    skew = f"its clock is {abs(server.ahead_s) * 1000:.0f} ms from this machine's"
    if abs(server.ahead_s) > LARGEST_SKEW_S:
        advice = "synchronise the clocks (NTP): deadlines and expiry follow that of Redis"
        yield warning("redis clock", skew, advice)
    else:
        yield ok("redis clock", skew)
    if int(info.get("connected_slaves", 0)) < settings.redis_replicas:
        yield failure(
            "redis replicas",
            f"{info.get('connected_slaves', 0)} replicas are connected, HONE_REDIS_REPLICAS"
            f" requires {settings.redis_replicas}: submissions are not acknowledged",
            "connect the replicas, or lower HONE_REDIS_REPLICAS",
        )


def _cluster(server: "ServerFacts") -> Iterator[Diagnosis]:
    """Say whether the cluster is whole, if Redis is one."""
    if not server.nodes:
        return
    subject, nodes = "redis cluster", [line.split() for line in server.nodes]
    mine = next(node for node in nodes if "myself" in node[2])
    if any(word.startswith(f"[{server.slot}-") for word in mine):
        text = f"slot {server.slot} with Hone's keys is being moved key by key"
        yield failure(subject, text, "finish or undo the move: Hone goes on when the slot is whole")
    failed = [node[1].partition("@")[0] for node in nodes if "fail" in node[2].split(",")]
    if failed:
        yield warning(subject, f"{', '.join(failed)} have failed", "start them, or forget them")
    if not int(server.info.get("connected_slaves", 0)):
        text = "no replica follows the node that has Hone's keys: with the node they are away"
        yield warning(subject, text, "add a replica to its shard")
    if server.full_coverage == "yes":
        text = "without any other shard Redis refuses these keys too"
        yield warning(subject, text, "set `cluster-require-full-coverage no`")
    if not server.moves_slots_at_once:
        text = "this version moves slots key by key only: Hone stops while its slot is moved"
        yield warning(subject, text, "Valkey 9 moves them at once (CLUSTER MIGRATESLOTS)")
    yield ok(subject, f"{len(nodes)} nodes; all keys are on {mine[1].partition('@')[0]}")


def _persistence(server: "ServerFacts") -> Diagnosis:
    info, subject = server.info, "redis disk"
    if not int(info.get("aof_enabled", 0)):
        saves = "RDB snapshots at most" if info.get("rdb_last_save_time") else "nothing"
        return warning(
            subject,
            f"no append-only file: after a crash of Redis {saves} remain",
            "set `appendonly yes`; see docs/operations.md",
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        advice = "free space on its disk; until then Redis refuses writes"
        return failure(subject, "the last write to the disk failed", advice)
    every = {"everysec": "every second", "always": "for every write", "no": "by the system's will"}
    text = f"append-only file, synchronised {every.get(server.fsync, 'as configured there')}"
    if server.fsync == "no":
        return warning(subject, text, "set `appendfsync everysec`")
    return ok(subject, text)


def _memory(info: Mapping[str, Any]) -> Diagnosis:
    from app.store.redis.scripts import FULL  # noqa: PLC0415 - importing the store takes time

    used, bound = int(info["used_memory"]), int(info.get("maxmemory", 0))
    if not bound:
        return warning(
            "redis memory",
            f"{_mib(used)} are used, without a limit",
            "set `maxmemory`, so that Hone refuses new work before the system ends Redis",
        )
    share = used / bound
    text = f"{_mib(used)} of {_mib(bound)} are used ({share:.0%})"
    advice = "raise maxmemory, shorten HONE_RETENTION_S, or delete refinements"
    if share >= FULL:
        return failure("redis memory", f"{text}: new refinements are refused", advice)
    if share >= NEARLY_FULL:
        return warning("redis memory", text, advice)
    return ok("redis memory", text)


def _workers(server: "ServerFacts") -> Iterator[Diagnosis]:
    from app.service.offers import unplayed  # noqa: PLC0415 - commands start without it

    if not server.workers:
        yield failure(
            "workers",
            "none is running: submitted refinements wait",
            "start `hone worker`, with the same HONE_REDIS_URL and HONE_QUEUE as the API",
        )
    own = version("hone")
    for worker in server.workers:
        python_version = worker.python.partition(" ")[0]
        release = worker.release or "an earlier one"
        text = (
            f"{worker.name} on {worker.host or 'an unknown host'}, release {release},"
            f" Python {python_version or 'unknown'}, holds {worker.holds} refinements"
        )
        if worker.release == own:
            yield ok("workers", text)
        else:
            advice = f"this is release {own}: update it, unless an update is under way"
            yield warning("workers", text, advice)
    for needed in server.unplayable:
        yield failure("workers", *unplayed(needed))


def _archive(seen: Seen, settings: Settings) -> Iterator[Diagnosis]:
    """Say whether the archive works, if there is one."""
    if not settings.archive_url and not seen.archive.installation:
        return
    advice = "check HONE_ARCHIVE_URL, its credentials and the store; docs/operations.md#archive"
    if error := seen.archive.text or seen.archive_error:
        yield warning("archive", error, advice)
    else:
        yield ok("archive", f"{settings.archive_url}; {seen.archive.due} records wait for it")


def _keys(seen: Seen, settings: Settings, server: str) -> Iterator[Diagnosis]:
    if settings.auth == "off":
        return
    if seen.refused:
        yield (warning if seen.keys else failure)(
            "access",
            f"{seen.refused} API keys were made with another HONE_SECRET_KEY: the API answers 401",
            "set HONE_SECRET_KEY, or HONE_SECRET_KEY_OLD, to the one that they were made with",
        )
    if seen.keys:
        yield ok("access", f"{seen.keys} API keys work")
    elif seen.refused:
        return
    elif listens_on_loopback(settings.host) and settings.auth == "auto":
        yield _open(settings, server)
    else:
        yield failure(
            "access",
            "there are no API keys: the API answers 401 to everybody",
            f"`hone keys create --admin` creates the first one, of tenant `{OPERATOR}`",
        )


def _open(settings: Settings, server: str) -> Diagnosis:
    """Return the finding about a service without keys; `server` is the URL that clients use."""
    text = "no API keys: whoever reaches the port can use the API"
    advice = "`hone keys create --admin` creates the first one"
    if server and not is_local(server):
        with ContractClient(server) as client:
            if isinstance(client.readiness(), Readiness):
                text = f"no API keys: whoever reaches {server} can use the API"
                return failure("access", text, advice)
    named = {
        "HONE_SERVER": server and not is_local(server),
        "HONE_ALLOWED_HOSTS": settings.allowed_hosts,
        "HONE_ROOT_PATH": settings.root_path,
    }
    if given := [name for name, is_given in named.items() if is_given]:
        text = f"{text}, and {', '.join(given)} says that a proxy stands before it"
        return warning("access", text, advice)
    return ok("access", f"{text}; put no proxy before it")


def _api(settings: Settings) -> Iterator[Diagnosis]:
    """Yield what the API on this machine says of itself to the operator's key."""
    url, began = url_of(settings), time.monotonic()
    try:
        with ContractClient(url, api_key=settings.api_key) as client:
            readiness = client.read(Readiness, "/readyz", timeout=READY_S)
    except ApiError as refused:
        why = refused.detail or refused.title
        if refused.status in {401, 403}:
            whom = "HONE_API_KEY" if settings.api_key else "requests without a key"
            advice = "set HONE_API_KEY to a key that works: until then nothing is known of the API"
            yield warning("api", f"{url} refuses {whom}: {why}", advice)
        else:
            advice = "other findings, and the log of the API, say what to change"
            yield failure("api", f"{url} answers, but is not ready: {why}", advice)
    except (CliError, HoneError) as error:
        advice = "start `hone api`, unless the API runs on another machine"
        yield warning("api", f"{url} does not answer: {str(error).splitlines()[0]}", advice)
    else:
        took_ms = (time.monotonic() - began) * 1000
        yield ok("api", f"{url} is ready, it says within {took_ms:.0f} ms")
        for text in readiness.warnings:
            yield warning("api", text, "docs/runbook.md says what to do")


def _models(settings: Settings, seen: Seen | None) -> Iterator[Diagnosis]:
    provider = provider_of(settings.model, settings.providers)
    if provider and settings.lacks_key(provider):
        yield failure(
            "models",
            f"HONE_MODEL is {settings.model}, and {provider.name} has no key",
            f"set {provider.key_variable} for API and workers",
        )
    else:
        yield ok("models", f"by default {settings.model}")
    offered = (
        *(server for server in PROVIDERS if server.base_url),
        *map(added, settings.providers),
    )
    named = [offer.name for offer in offered if not settings.lacks_key(offer)]
    yield ok("models", f"configured: {', '.join(named) or 'the editor alone'}")
    for text in seen.broken if seen else ():
        yield warning("models", text, "docs/runbook.md#honemodeltakesnocalls says what to do")


def _calls(settings: Settings, used: Sequence[str]) -> Iterator[Diagnosis]:
    """Yield what a tiny call to each model in use brought, as a worker would make it."""
    names = tuple(dict.fromkeys((settings.model, *used[:RECENTLY_USED])))
    command = [*python(), "-m", "workers", "call", *names]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and names of models
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
    except subprocess.SubprocessError as error:
        yield failure("model calls", f"could not be made: {error}", "")
        return
    for line in done.stdout.splitlines():
        call = json.loads(line)
        took = f"{call['model']} answered within {call['seconds']:.1f} s"
        if call["refusal"] is None:
            yield ok("model calls", took)
        else:
            text = f"{call['model']}: {call['refusal']}"
            yield failure("model calls", text, "docs/models.md has the settings")


def _disk(settings: Settings) -> Iterator[Diagnosis]:
    if settings.redis_url:
        return  # its data is elsewhere
    directory = settings.data_dir.expanduser()
    while not directory.exists():
        directory = directory.parent
    disk = shutil.disk_usage(directory)
    text = f"{_mib(disk.free)} are free where {settings.data_dir} is ({disk.free / disk.total:.0%})"
    if disk.free / disk.total < MINIMUM_FREE:
        yield warning("disk", text, "free some, or move HONE_DATA_DIR")
    else:
        yield ok("disk", text)


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
