"""`hone top`: what goes on in a service, on a terminal that refreshes, or once."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.access_commands import on_store
from app.cli.display import name_of, plain
from app.cli.root import app, console
from app.contract.errors import HoneError
from app.contract.offers import ModelLimit

if TYPE_CHECKING:
    from app.store import LiveRefinement, LiveWorker, Overview, Store

WORKER_HEAD = ("worker", "host", "pid", "release", "holds", "free slots", "lease")
MODEL_HEAD = ("model", "rate", "in flight", "parked", "state")
ROW_HEAD = ("refinement", "tenant", "status", "age", "strategy", "iteration", "attempt", "now")


@app.command()
def top(
    every: Annotated[
        float, typer.Option(min=0.5, max=3_600, help="Seconds between two looks.")
    ] = 2.0,
    rows: Annotated[int, typer.Option(min=1, max=50, help="Refinements shown at most.")] = 15,
    once: Annotated[bool, typer.Option("--once", help="Look once; so without a terminal.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Look once, and print it as JSON.")
    ] = False,
) -> None:
    """Show what goes on in a service.

    Refinements that have not ended, workers, and models that are limited or away. It reads Redis
    directly, so it also works while the API is down.
    """
    is_once = once or as_json or not sys.stdout.isatty()
    with suppress(KeyboardInterrupt):
        on_store(
            lambda store: _print(store, rows, as_json) if is_once else _follow(store, every, rows)
        )


async def _look(store: "Store", rows: int) -> tuple["Overview", tuple[ModelLimit, ...]]:
    from app.queue import worker_key  # noqa: PLC0415 - importing RQ takes time

    seen, limits = await asyncio.gather(store.overview(rows, worker_key), store.limits())
    return seen, tuple(it.limit for it in limits)


async def _print(store: "Store", rows: int, as_json: bool) -> None:
    seen, limits = await _look(store, rows)
    if as_json:
        told = {**asdict(seen), "limits": [it.model_dump(mode="json") for it in limits]}
        print(json.dumps(told, indent=2))
    else:
        console().print(page(seen, limits))


async def _follow(store: "Store", every: float, rows: int) -> None:
    """Refresh until it is interrupted; while Redis is away the last page stays, and says so."""
    shown: Any = Text("")
    with Live(shown, console=console(), auto_refresh=False, screen=True) as live:
        while True:
            try:
                shown = page(*await _look(store, rows))
                live.update(shown, refresh=True)
            except HoneError as error:
                live.update(Group(plain(str(error), "bold red"), shown), refresh=True)
            await asyncio.sleep(every)


def page(seen: "Overview", limits: Sequence[ModelLimit]) -> Group:
    """Return what is shown of one look."""
    counts = "  ".join(f"{count} {status}" for status, count in seen.counts.items())
    head = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {counts}  ({seen.waiting} wait in line)"
    if seen.tenants > seen.shown_tenants:
        head += f"  (of {seen.shown_tenants} of {seen.tenants} tenants)"
    parts: list[Any] = [plain(head, "bold"), Text("")]
    if seen.workers:
        parts.append(_table(WORKER_HEAD, [_worker(it) for it in seen.workers]))
    else:
        parts.append(plain("no worker is running", "bold red"))
    if models := _models(seen, limits):
        parts += [Text(""), _table(MODEL_HEAD, models)]
    if seen.oldest:
        parts += [Text(""), _table(ROW_HEAD, [_refinement(it) for it in seen.oldest])]
    return Group(*parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(name_of, row))
    return table


def _worker(it: "LiveWorker") -> tuple[str, ...]:
    free = "unknown" if it.free is None else str(it.free)
    return (it.name, it.host, it.pid, it.release, str(it.holds), free, f"{it.lease_s:.1f} s")


def _models(seen: "Overview", limits: Sequence[ModelLimit]) -> list[tuple[str, ...]]:
    """Return those that are limited, with an open breaker, or waited for."""
    rows: list[tuple[str, ...]] = [
        (
            it.name,
            "" if it.calls_per_s is None else f"{it.calls_per_s:g}/s",
            str(it.in_flight),
            str(seen.parked.get(it.name, "")),
            _state(it),
        )
        for it in limits
    ]
    named = {it.name for it in limits}
    rows += [(it, "", "", str(n), "waited for") for it, n in seen.parked.items() if it not in named]
    return rows


def _state(it: ModelLimit) -> str:
    if it.breaker is not None:
        breaker = it.breaker
        return (
            f"takes no calls since {breaker.since:%H:%M:%S}: {breaker.reason};"
            f" probe at {breaker.next_probe_at:%H:%M:%S}"
        )
    if it.paused_until is not None:
        return f"paused until {it.paused_until:%H:%M:%S}"
    return "limited"


def _refinement(it: "LiveRefinement") -> tuple[str, ...]:
    now = f"waits for {', '.join(it.waits_for)}" if it.waits_for else ", ".join(it.steps)
    return (
        it.id,
        it.tenant,
        it.status,
        _age(it.age_s),
        it.strategy,
        "" if it.iteration is None else str(it.iteration),
        str(it.attempt) if it.attempt > 1 else "",
        now,
    )


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
