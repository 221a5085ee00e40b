"""Entries of a later release: workers of this one go on with them, and clients see them whole."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from app.settings import Settings
from app.store import keys
from tests.api.conftest import running
from tests.journals.test_releases import (
    JOURNALS,
    StoredJournal,
    compared,
    expected,
    taken_over,
)
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import open_harness

NAMED_BY_CALLERS = {"models", "fallbacks", "outputs", "metadata"}
"""Objects whose names are data: a release adds none."""


def later(value: Any) -> Any:
    """Return JSON in which every object has one field more."""
    match value:
        case dict():
            grown = {n: it if n in NAMED_BY_CALLERS else later(it) for n, it in value.items()}
            return grown | {"of_a_later_release": {"kept": True}}
        case list():
            return [later(it) for it in value]
        case _:
            return value


def of_a_later_release(stored: StoredJournal) -> StoredJournal:
    """Return the journal as a release would write it whose events carry optional fields more."""
    entries = tuple(
        (number, {**fields, "data": json.dumps(later(json.loads(fields["data"])))})
        if "data" in fields
        else (number, fields)
        for number, fields in stored.entries
    )
    return replace(stored, entries=entries)


def with_unknown_events(stored: StoredJournal) -> StoredJournal:
    """Return the journal as a release would write it that notes something after every step."""
    entries: list[tuple[str, Mapping[str, str]]] = []
    for _, fields in stored.entries:
        entries.append((f"{len(entries) + 1}-0", fields))
        if fields["type"] == "step.completed":
            note = {"type": "step.noted", "at": fields["at"], "data": '{"key":"iterations/1"}'}
            entries.append((f"{len(entries) + 1}-0", note))
    return replace(stored, entries=tuple(entries))


@pytest.mark.parametrize("path", JOURNALS, ids=lambda it: f"{it.parent.name}-{it.stem}")
async def test_unknown_events_keep_no_worker_from_taking_a_refinement_over(
    redis_url: str, path: Path
) -> None:
    stored = with_unknown_events(StoredJournal.read(path))
    cuts = stored.cuts()
    async with open_harness(redis_url) as harness:
        with Redis.from_url(redis_url) as client:
            for entries in (cuts[0], cuts[len(cuts) // 2], cuts[-1]):
                ended, _ = await taken_over(harness, client, stored, entries)
                known = compared(ended)
                known["scores"] = [it.model_dump() for it in known["scores"]]
                assert known == expected(stored)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda it: f"{it.parent.name}-{it.stem}")
async def test_unknown_fields_keep_no_worker_from_taking_a_refinement_over(
    redis_url: str, path: Path
) -> None:
    stored = of_a_later_release(StoredJournal.read(path))
    cuts = stored.cuts()
    async with open_harness(redis_url) as harness:
        with Redis.from_url(redis_url) as client:
            for entries in (cuts[0], cuts[len(cuts) // 2], cuts[-1]):
                ended, _ = await taken_over(harness, client, stored, entries)
                assert ended.status == expected(StoredJournal.read(path))["status"]
                assert ended.stop_reason == compared(ended)["stop_reason"]


def test_unknown_fields_reach_the_client_of_the_journal(redis_url: str) -> None:
    stored = of_a_later_release(StoredJournal.read(JOURNALS[0]))
    refinement_id = f"ref_{0:026d}"
    with Redis.from_url(redis_url) as client:
        stored.restore(client, refinement_id, len(stored.entries) - 1)
        best: Any = client.hget(keys.SUMMARY + refinement_id, "best")
        grown = json.dumps(later(json.loads(best)))
        client.hset(keys.SUMMARY + refinement_id, "best", grown)
    with running(Settings(redis_url=redis_url, port=0)) as url:
        path = f"{url}/v1/refinements/{refinement_id}"
        snapshot = httpx.get(path, timeout=TIMEOUT_S)
        as_json = {"Accept": "application/json"}
        events = httpx.get(f"{path}/events", headers=as_json, timeout=TIMEOUT_S)
    assert snapshot.json()["best"]["path"] == json.loads(best)["path"]
    assert all("of_a_later_release" in it["data"] for it in events.json()["data"])
