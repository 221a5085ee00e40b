"""The terminal sessions of docs/cli.md come out as they are printed there."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.e2e.running_service import running_service
from tests.e2e.terminal_sessions import (
    PAGE,
    WITHOUT_KEY,
    PlayedSession,
    played,
    sessions_of,
    steady,
    with_ids,
)

pytestmark = pytest.mark.long

TRIED_ELSEWHERE = "hone batch", "hone insights", "hone serve"
"""120 refinements, what is learnt from them, and a port of its own: tests/cli tries these."""


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("setsid")), reason="no jq or setsid")
async def test_every_session_on_the_page_about_the_command_line_runs(tmp_path: Path) -> None:
    part = sessions_of(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "home").mkdir()
    async with running_service(tmp_path, **WITHOUT_KEY) as service:
        home = tmp_path / "home"
        found = await asyncio.to_thread(lambda: [*played(part, service, home, TRIED_ELSEWHERE)])
    assert len(found) > 20
    differing = {
        it.command: (steady(with_ids(it.shown, it.ids)), steady(it.now))
        for it in found
        if it.differs()
    }
    assert differing == {}, "run `python -m tests.e2e.terminal_sessions`, and look at what changed"


def test_only_times_and_ids_may_differ_and_of_what_is_never_the_same_twice_the_numbers() -> None:
    shown = "ref_000000000001 scored 0.96 on 2026-11-23 in 0.1 s"
    now = shown.replace("000001", "000002").replace("11-23", "12-24").replace("0.1 s", "3.0 s")
    ids = {"ref_000000000001": "ref_000000000002"}
    assert not PlayedSession("hone get", shown, now, ids).differs()
    assert PlayedSession("hone get", shown, now.replace("0.96", "0.97"), ids).differs()
    assert not PlayedSession("hone doctor", "2 workers", "3 workers", {}).differs()
    assert PlayedSession("hone doctor", "2 workers", "2 keys", {}).differs()
