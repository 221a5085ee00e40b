"""The commands of the operator: keys and tenants. They need the service's Redis, not its API."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.table import Column, Table

from app.cli.contract_client import CliError
from app.cli.display import name_of, say
from app.cli.root import HoneGroup, app, check_writable, console, read_settings, write_file
from app.contract.access import OPERATOR, WITHOUT_ADMIN, ApiKey, KeyRequest, Quotas, Rotation, Scope
from app.contract.errors import HoneError
from app.contract.invalid_values import sentence_of
from app.local.embedded import DataDirInUse, EmbeddedRedis, url_of_running

if TYPE_CHECKING:
    from app.access.keyring import Keyring
    from app.store import Store
    from app.store.archive_check import ArchiveFindings
    from app.store.cells import Cells

T = TypeVar("T")


def _group(name: str, meaning: str) -> typer.Typer:
    """Return the commands of one subject, `hone NAME ...`."""
    group = typer.Typer(cls=HoneGroup, no_args_is_help=True, help=meaning)
    app.add_typer(group, name=name)
    return group


cells = _group("cells", "Choose the cells that take submissions; requires HONE_CELLS.")
keys = _group("keys", "Create, list, rotate and revoke API keys.")
tenants = _group("tenants", "Show tenants, and set what each may use.")
secrets = _group("secrets", "Replace HONE_SECRET_KEY.")
archive = _group("archive", "Compare HONE_ARCHIVE_URL with Redis, and repair.")

TenantArgument = Annotated[str, typer.Argument(help="Name of the tenant.")]
CellArgument = Annotated[int, typer.Argument(help="Number of the cell.")]
KeyIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the key: key_...")]


def on_store(
    work: "Callable[[Store], Awaitable[T]]",
    action: str = "",
    about: str = "",
    *,
    may_begin: bool = False,
) -> T:
    """Return what `work` returns for the store of the service, of cell 0; see `on_cells`."""
    return on_cells(lambda cells: work(cells.stores[0]), action, about, may_begin=may_begin)


def on_cells(
    work: "Callable[[Cells], Awaitable[T]]",
    action: str = "",
    about: str = "",
    *,
    may_begin: bool = False,
) -> T:
    """Return what `work` returns for all cells of the service; raise CliError.

    Without HONE_REDIS_URL that is the Redis of the data directory, which is started for as long as
    this takes unless it runs; if there was never a service, only where that `may_begin` one. An
    `action` is added to the audit logs of `default` and of its tenant: that of the key which `work`
    returns, else `about`.
    """
    from app.queue import RefinementQueue  # noqa: PLC0415 - importing the store takes time
    from app.store import ArchiveAway, UnusableRedis, open_cells, refusals  # noqa: PLC0415

    settings = read_settings()

    async def connected(url: str) -> T:
        there = settings.model_copy(update={"redis_url": url})
        async with open_cells(there, RefinementQueue(settings.queue)) as cells:
            with refusals():
                done = await work(cells)
                if action:
                    subject = about or str(getattr(done, "id", ""))
                    for log in {OPERATOR, getattr(done, "tenant", about) or OPERATOR}:
                        await cells.access.record(log, "command line", action, subject)
                    await cells.changed(())  # no command changes what is copied by tenant
            return done

    redis, home = None, settings.data_dir.expanduser()
    if not settings.redis_url and not may_begin and not home.is_dir():
        raise CliError(
            f"no service has its data in {home}: set HONE_DATA_DIR or HONE_REDIS_URL to those of"
            " the service, or start one with `hone serve`"
        )
    if not settings.redis_url:
        with suppress(DataDirInUse):
            redis = EmbeddedRedis(settings.data_dir)
    with redis or nullcontext():
        url = settings.redis_url or (redis.url if redis else url_of_running(settings.data_dir))
        try:
            return asyncio.run(connected(url))
        except (HoneError, UnusableRedis, ArchiveAway) as error:
            raise CliError(str(error)) from error


def keyring_of(store: "Store") -> "Keyring":
    """Return the keys of a service."""
    from app.access.keyring import Keyring  # noqa: PLC0415

    return Keyring(store.access, read_settings())


@cells.command(name="add")
def add_cell(number: CellArgument) -> None:
    """Let submissions go to a cell, 5 seconds from now.

    Every process must have been started with its URL before. It may be one that was drained.
    """
    on_cells(lambda cells: cells.add(number), "cells add", str(number))
    say(console(), f"cell {number} takes submissions in 5 seconds")


@cells.command(name="drain")
def drain_cell(number: CellArgument) -> None:
    """Let no submissions go to a cell, 5 seconds from now; what is in it goes on.

    It can go when `hone cells list` shows nothing in it. Cell 0 stays: it has keys and permits.
    """
    on_cells(lambda cells: cells.drain(number), "cells drain", str(number))
    say(console(), f"cell {number} takes no submissions in 5 seconds")


@cells.command(name="list")
def list_cells() -> None:
    """List the cells, and what is in each."""
    from app.store.redis.connection import place_of  # noqa: PLC0415

    settings = read_settings()
    table = _table("cell", "submissions", "workers", "unfinished", "refinements", "Redis")
    for facts in on_cells(lambda cells: cells.facts()):
        counts = (facts.workers, facts.unfinished, facts.refinements)
        shown = ("", "", "") if facts.away else tuple(map(str, counts))
        place = place_of(settings.in_cell(facts.number).redis_url) or "embedded"
        table.add_row(str(facts.number), (facts.away and "away") or facts.state, *shown, place)
    console().print(table)


@keys.command()
def create(
    tenant: Annotated[str, typer.Option(help="Tenant of the key; a new name is a new one.")] = (
        OPERATOR
    ),
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="What it allows; repeat it.  [default: submit, read, review]"),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="All scopes, admin included.")] = False,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires_in_days: Annotated[
        float | None, typer.Option(help="Days after which it stops working.  [default: never]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write it to this file, which only you can read, instead of printing it. If the"
            " file exists, no key is created."
        ),
    ] = None,
) -> None:
    """Create an API key and print it: it cannot be shown again."""
    check_writable(out)
    if out and out.is_file() and out.stat().st_size:
        say(console(), f"{out} exists: no key was created")
        return
    request = _request(tenant, tuple(Scope) if admin else scope, name, expires_in_days)
    issued = on_store(
        lambda store: keyring_of(store).create(OPERATOR, request), "keys create", may_begin=True
    )
    if out is None:
        print(issued.key)  # alone, so that a script can read it
        return
    try:
        write_file(out, [f"{issued.key}\n".encode()], is_secret=True)
    except CliError as error:
        _revoke(issued.id)
        raise CliError(f"{error}: {issued.id} is revoked again") from None
    say(console(), f"{issued.id} was written to {out}")


@keys.command(name="list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also keys that stopped working.")] = (
        False
    ),
) -> None:
    """List API keys, the newest first."""
    found = on_store(lambda store: keyring_of(store).keys(OPERATOR))
    now = datetime.now(UTC)
    table = _table("id", "tenant", "scopes", "name", "created", "last used", "state")
    for key in found:
        state = _state(key, now)
        if everything or not state.startswith(("revoked", "expired")):
            times = (_day(key.created_at), _day(key.last_used_at) or "never")
            cells = (key.id, key.tenant, " ".join(key.scopes), key.name, *times, state)
            table.add_row(*map(name_of, cells))
    console().print(table)


@keys.command()
def rotate(
    key_id: KeyIdArgument,
    overlap_hours: Annotated[
        float, typer.Option(help="Hours for which the old key goes on working.")
    ] = 24,
) -> None:
    """Print a new key with the same rights; for a day both work."""
    try:
        rotation = Rotation(overlap_s=round(overlap_hours * 3600))
    except ValidationError:
        raise typer.BadParameter("--overlap-hours must be from 0 to 720") from None
    issued = on_store(
        lambda store: keyring_of(store).rotate(OPERATOR, key_id, rotation), "keys rotate"
    )
    print(issued.key)


@keys.command()
def revoke(key_id: KeyIdArgument) -> None:
    """Make a key stop working within a second."""
    _revoke(key_id)
    say(console(), f"{key_id} is revoked")


def _revoke(key_id: str) -> None:
    on_store(lambda store: keyring_of(store).revoke(OPERATOR, key_id), "keys revoke")


def _table(first: str, *others: str) -> Table:
    """Return a table whose first column is never wrapped."""
    columns = (Column(name, min_width=min(10, len(name) + 1)) for name in others)
    return Table(
        Column(first, no_wrap=True), *columns, box=None, pad_edge=False, header_style="bold"
    )


@tenants.command(name="list")
def list_tenants() -> None:
    """List the tenants, what each uses and its quotas."""
    from app.access.tenants import Tenants  # noqa: PLC0415

    found = on_cells(lambda cells: Tenants(cells.access).all(OPERATOR))
    table = _table("tenant", "queued", "in flight", "quotas")
    for tenant in found:
        use, quotas = tenant.use, tenant.quotas.model_dump_json(exclude_none=True)
        cells = (tenant.name, str(use.queued), str(use.in_flight), quotas.strip("{}") or "none")
        table.add_row(*map(name_of, cells))
    console().print(table)


@tenants.command(name="set")
def set_quotas(
    tenant: TenantArgument,
    quotas: Annotated[
        list[str] | None,
        typer.Argument(
            help="Such as requests_per_minute=600 in_flight=50 models=openai:*,anthropic:*."
            " A quota that is not named is none."
        ),
    ] = None,
) -> None:
    """Replace the quotas of a tenant, within a second."""
    from app.access.tenants import Tenants  # noqa: PLC0415

    given = dict(entry.partition("=")[::2] for entry in quotas or ())
    wanted = {name: text.split(",") if name == "models" else text for name, text in given.items()}
    try:
        read = Quotas.model_validate(wanted)
    except ValidationError as invalid:
        raise _refused(invalid, Quotas) from None
    on_cells(
        lambda cells: Tenants(cells.access).set_quotas(OPERATOR, tenant, read),
        "tenants set",
        tenant,
        may_begin=True,
    )
    say(console(), f"{tenant}: {read.model_dump_json(exclude_none=True)}")


@tenants.command()
def export(tenant: TenantArgument) -> None:
    """Print everything that is stored of a tenant, as JSON Lines."""
    from app.access.tenants import exported_tenant  # noqa: PLC0415

    async def print_all(cells: "Cells") -> None:
        async for entry in exported_tenant(cells, tenant):
            print(json.dumps(entry))

    on_cells(print_all, "tenants export", tenant)


@tenants.command()
def erase(
    tenant: TenantArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase a tenant: its keys, refinements, quotas and all that was learnt; not its audit log."""
    from app.access.tenants import erase_tenant as erase_all  # noqa: PLC0415

    if not yes:
        typer.confirm(f"Erase everything of the tenant {tenant}?", abort=True)
    erased = on_cells(lambda cells: erase_all(cells, tenant), "tenants erase", tenant)
    say(console(), f"{tenant} is erased, with {erased} refinements")


@secrets.command(name="rotate")
def rotate_secrets() -> None:
    """Seal everything stored under HONE_SECRET_KEY, and say when HONE_SECRET_KEY_OLD can go.

    Run it when all processes of the service have both settings. It may be repeated.
    """
    settings = read_settings()
    if len(settings.secret_keys) < 2:
        raise CliError(
            "set HONE_SECRET_KEY to the new key and HONE_SECRET_KEY_OLD to the one before, for this"
            " command and for all processes of the service"
        )

    from app.store import refusals  # noqa: PLC0415 - importing the store takes time

    async def rotated(cells: "Cells") -> "tuple[Counter[str], list[ApiKey], Sequence[str]]":
        done = Counter[str]()
        for store in cells.stores:
            with refusals():
                while again := +await store.seal_all():  # also what was moved behind the scan
                    done += again
                await store.access.forget_random_secret()
        left = await keyring_of(cells.stores[0]).made_under_old_secret()
        return done, left, [path for store in cells.stores for path in store.unreadable_objects]

    done, left, unreadable = on_cells(rotated, "secrets rotate")
    sealed = ", ".join(f"{count} {kind}" for kind, count in done.items() if count)
    say(console(), f"sealed anew: {sealed or 'nothing'}")
    for key in left:
        say(console(), f"still under the old key: {key.id} {key.tenant} {key.name}".rstrip())
    if left:
        say(console(), "replace each with `hone keys rotate ID`, and run this command again")
    _fail_for(unreadable)
    say(
        console(),
        f"HONE_SECRET_KEY_OLD can go{' once no key is listed here,' if left else ''}"
        " 12 hours after the last process was restarted with both (sessions of the console), when"
        " every receiver of webhooks and tool calls has its new secret (docs/access.md)",
    )


SHOWN = 20


@archive.command(name="check")
def check_archive(
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Delete objects without a stub that are older than 7 days, with all others of"
            " their refinements; refused for more than 1 % of all.",
        ),
    ] = False,
    read: Annotated[
        bool, typer.Option("--read", help="Read every object, and list those that are damaged.")
    ] = False,
) -> None:
    """List objects without a refinement, and refinements without an object.

    It exits with 1 if an object is missing or damaged.
    """
    from app.store.archive_check import RefusedDeletion  # noqa: PLC0415

    async def checked(cells: "Cells") -> "list[ArchiveFindings]":
        check = await cells.archive_check()
        found = await check.compare(reads=read)
        if delete:
            await check.delete(found)
        return found

    try:
        findings = on_cells(checked, "archive check --delete" if delete else "")
    except RefusedDeletion as refused:
        raise CliError(f"nothing was deleted: {refused}") from None
    for found in findings:
        _tell(found, delete=delete, read=read)
    if any(found.missing or found.damaged for found in findings):
        raise typer.Exit(1)


def _tell(found: "ArchiveFindings", *, delete: bool, read: bool) -> None:
    say(console(), f"installation {found.installation}: {found.objects} objects")
    gone = f"deleted: {len(found.deletable)}" if delete else f"old enough: {len(found.deletable)}"
    _say_some(f"without a stub: {len(found.unnamed)}, {gone}", [at.path for at in found.unnamed])
    _say_some(f"refinements without their object: {len(found.missing)}", found.missing)
    if read:
        _say_some(f"damaged: {len(found.damaged)}", found.damaged)


def _say_some(what: str, names: Sequence[str]) -> None:
    say(console(), what)
    for name in names[:SHOWN]:
        say(console(), f"  {name}")
    if len(names) > SHOWN:
        say(console(), f"  and {len(names) - SHOWN} more")


@archive.command(name="restore")
def restore_archive(
    installation: Annotated[
        str,
        typer.Option(
            help="Copy the refinements of this installation, the first directory of its objects,"
            " instead: for an empty Redis.  [default: that of this Redis]"
        ),
    ] = "",
) -> None:
    """List in Redis again what only the archive still has, or has as it was changed later.

    It exits with 1 if an object cannot be read, and passes over it.
    """

    async def rebuilt(cells: "Cells") -> tuple[int, Sequence[str]]:
        check = await cells.archive_check()
        return await check.restore(installation), check.unreadable

    restored, unreadable = on_cells(rebuilt, "archive restore")
    say(console(), f"restored: {restored} refinements")
    _fail_for(unreadable)


def _fail_for(unreadable: Sequence[str]) -> None:
    """Name the objects of the archive that could not be read, if there are any, and exit with 1."""
    if unreadable:
        what = f"objects that could not be read, of the archive: {len(unreadable)}"
        _say_some(f"{what} (`hone archive check --read` lists all)", unreadable)
        raise typer.Exit(1)


def _request(
    tenant: str, scopes: Sequence[Scope] | None, name: str, days: float | None
) -> KeyRequest:
    try:
        expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
        return KeyRequest(
            tenant=tenant,
            scopes=tuple(scopes or WITHOUT_ADMIN),
            name=name,
            expires_at=expires_at,
        )
    except OverflowError:
        raise typer.BadParameter(
            "the year 9999 is the last one", param_hint="--expires-in-days"
        ) from None
    except ValidationError as invalid:
        raise _refused(invalid) from None


def _refused(invalid: ValidationError, model: type[BaseModel] | None = None) -> typer.BadParameter:
    wrong = (f"{error['loc'][0]}: {sentence_of(error, model)}" for error in invalid.errors())
    return typer.BadParameter("; ".join(wrong))


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.outdated:
        return "made under a secret key that is gone"
    if key.expires_at is None:
        return "works"
    verb = "expired" if key.expires_at <= now else "works until"
    return f"{verb} {_day(key.expires_at)}"


def _day(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M}"
