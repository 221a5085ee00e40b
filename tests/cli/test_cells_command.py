"""`hone cells`, and what other commands say of several cells."""

import json
import re
from pathlib import Path

from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.store.redis import keys
from tests.api.test_erasure import traces
from tests.cli.conftest import Run


def test_a_cell_is_added_listed_and_drained(hone: Run, tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "0", aof=False) as first, EmbeddedRedis(tmp_path / "1") as second:
        where = {
            "HONE_REDIS_URL": first.url,
            "HONE_CELLS": "2",
            "HONE_CELLS_URL": second.url,
            "COLUMNS": "200",
        }
        assert re.search(r"^1 +no +0 +0 +0", hone("cells", "list", **where).stdout, re.MULTILINE)
        assert hone("cells", "add", "1", **where).exit_code == 0
        again = hone("cells", "add", "1", **where)
        assert (again.exit_code, again.stderr) == (1, "Error: cell 1 takes submissions already\n")
        assert "no cell 2" in hone("cells", "add", "2", **where).stderr
        assert re.search(r"^1 +soon ", hone("cells", "list", **where).stdout, re.MULTILINE)
        assert hone("cells", "drain", "0", **where).exit_code == 0
        assert "is the only one" in hone("cells", "drain", "1", **where).stderr
        key = hone("keys", "create", "--admin", **where).stdout
        assert key.startswith("hone_")
        diagnoses = json.loads(hone("doctor", "--json", **where).stdout)
        subjects = {it["subject"] for it in diagnoses}
        assert {"cell 0: redis", "cell 1: redis", "cell 0: workers", "cell 1: workers"} <= subjects
        swapped = where | {"HONE_REDIS_URL": second.url, "HONE_CELLS_URL": first.url}
        assert "this Redis is cell" in hone("cells", "list", **swapped).stderr
        second.stop()
        assert re.search(r"^1 +away ", hone("cells", "list", **where).stdout, re.MULTILINE)
        assert "it is away" in hone("doctor", "--json", **where).stdout
        exported = hone("tenants", "export", "default", **where)
        assert exported.exit_code == 1


def test_no_cell_names_an_erased_tenant_but_in_the_log(hone: Run, tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "0") as first, EmbeddedRedis(tmp_path / "1") as second:
        where = {"HONE_REDIS_URL": first.url, "HONE_CELLS": "2", "HONE_CELLS_URL": second.url}
        hone("keys", "create", "--tenant", "acme", **where)
        assert hone("tenants", "erase", "acme", "--yes", **where).exit_code == 0
        for url in (first.url, second.url):
            with Redis.from_url(url) as redis:
                left = traces(redis)
            logs = {keys.AUDIT + "acme", keys.AUDIT + "default"}
            assert [key for key in left if "acme" in key + left[key] and key not in logs] == []


def test_settings_that_contradict_each_other_are_refused(hone: Run) -> None:
    refused = hone("cells", "list", HONE_REDIS_URL="redis://one", HONE_CELLS="3")
    assert refused.exit_code == 2
    assert "HONE_CELLS_URL" in refused.stderr
