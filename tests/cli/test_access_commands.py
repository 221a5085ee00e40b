"""`hone keys`, and the key that commands send."""

import json
import re
import stat
from pathlib import Path

from app.local.embedded import EmbeddedRedis
from tests.cli.conftest import Run
from tests.cli.scripted_server import CannedResponse, ScriptedApi

KEY = r"hone_[0-9a-z]{12}_[0-9A-Za-z]{43}"


def test_keys_are_created_listed_rotated_and_revoked(hone: Run, redis_url: str) -> None:
    where = {"HONE_REDIS_URL": redis_url, "COLUMNS": "200"}
    created = hone("keys", "create", "--tenant", "acme", "--scope", "read", **where)
    assert re.fullmatch(f"{KEY}\n", created.stdout)
    listed = hone("keys", "list", **where).stdout
    assert re.search(r"key_\w{12} .* acme .* read .* never .* works", listed)
    (key_id,) = re.findall(r"key_\w{12}", listed)
    assert re.fullmatch(f"{KEY}\n", hone("keys", "rotate", key_id, **where).stdout)
    assert "works until" in hone("keys", "list", **where).stdout
    assert hone("keys", "revoke", key_id, **where).exit_code == 0
    assert key_id not in hone("keys", "list", **where).stdout
    assert "revoked" in hone("keys", "list", "--all", **where).stdout
    unknown = hone("keys", "revoke", "key_x", **where)
    assert (unknown.exit_code, unknown.stderr) == (1, "Error: key key_x was not found\n")
    unreadable = hone("keys", "create", "--tenant", "A:b", **where)
    assert (unreadable.exit_code, "tenant" in unreadable.stderr) == (2, True)


def test_tenants_are_listed_and_their_quotas_set(hone: Run, redis_url: str) -> None:
    where = {"HONE_REDIS_URL": redis_url, "COLUMNS": "200"}
    quotas = ("queued=5", "models=openai:*,offline:editor")
    assert hone("tenants", "set", "acme", *quotas, **where).exit_code == 0
    listed = hone("tenants", "list", **where).stdout
    assert re.search(r"acme .*\"queued\":5,\"models\":\[\"openai:\*\",\"offline:editor\"\]", listed)
    assert re.search(r"default .* none", listed)
    wrong = hone("tenants", "set", "acme", "queued=many", "speed=1", **where)
    assert wrong.exit_code == 2
    assert "queued" in wrong.stderr
    assert "speed" in wrong.stderr


def test_a_tenant_is_exported_and_erased_by_commands(hone: Run, redis_url: str) -> None:
    where = {"HONE_REDIS_URL": redis_url, "COLUMNS": "200"}
    hone("keys", "create", "--tenant", "acme", **where)
    exported = [
        json.loads(line) for line in hone("tenants", "export", "acme", **where).stdout.splitlines()
    ]
    assert [entry["kind"] for entry in exported] == ["key", "action"]
    asked = hone("tenants", "erase", "acme", stdin="n\n", **where)
    assert (asked.exit_code, "acme" in hone("tenants", "list", **where).stdout) == (1, True)
    erased = hone("tenants", "erase", "acme", "--yes", **where)
    assert erased.stdout == "acme is erased, with 0 refinements\n"
    assert "acme" not in hone("tenants", "list", **where).stdout


def test_a_key_can_be_written_to_a_file_once(hone: Run, tmp_path: Path) -> None:
    """It needs no running service: the Redis of the data directory is started for it."""
    file, where = tmp_path / "admin.key", {"HONE_DATA_DIR": str(tmp_path / "data")}
    for _ in range(2):
        assert hone("keys", "create", "--admin", "--out", str(file), **where).exit_code == 0
    assert re.fullmatch(f"{KEY}\n", file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with EmbeddedRedis(tmp_path / "data"):
        listed = hone("keys", "list", **where, COLUMNS="200").stdout
    assert len(re.findall(r"key_\w{12}", listed)) == 1


def test_no_key_is_created_for_a_file_that_cannot_be_written(
    hone: Run, redis_url: str, tmp_path: Path
) -> None:
    where = {"HONE_REDIS_URL": redis_url, "COLUMNS": "200"}
    for out in (tmp_path, tmp_path / "nowhere" / "my.key"):
        refused = hone("keys", "create", "--out", str(out), **where)
        assert (refused.exit_code, "directory" in refused.stderr) == (2, True)
    full = hone("keys", "create", "--name", "lost", "--out", "/dev/full", **where)
    assert full.exit_code == 1
    assert "cannot write /dev/full: No space left on device" in full.stderr
    assert "lost" not in hone("keys", "list", **where).stdout
    assert re.search(r"lost .* revoked", hone("keys", "list", "--all", **where).stdout)


def test_a_key_goes_into_an_empty_file_that_only_its_owner_reads_from_then_on(
    hone: Run, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "my.key"
    file.touch(0o644)
    (tmp_path / "my.key.new").write_text("not ours")
    assert hone("keys", "create", "--out", str(file), HONE_REDIS_URL=redis_url).exit_code == 0
    assert re.fullmatch(f"{KEY}\n", file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (tmp_path / "my.key.new").read_text() == "not ours"


def test_commands_send_the_key_of_the_settings(hone: Run, server: ScriptedApi) -> None:
    server.answers["GET /v1/statistics?of=calibration&limit=100"] = [CannedResponse('{"data": []}')]
    assert hone("calibration", HONE_API_KEY="hone_x").exit_code == 0
    assert hone("calibration").exit_code == 0
    assert [asked.authorization for asked in server.asked] == ["Bearer hone_x", None]
