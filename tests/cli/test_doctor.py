"""`hone doctor`: what is wrong with a service, and what to change."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis import Redis

from app.cli.doctor import known_variables
from app.contract.providers import BY_NAME
from app.local.embedded import url_of_running
from app.settings import PROVIDER_VARIABLE, Settings
from app.store import open_permit_exchange
from app.store.rate_limits import PermitReport
from app.store.redis import keys
from tests.cli.conftest import Run
from tests.cli.running_command import running
from tests.cli.scripted_server import CannedResponse, ScriptedApi
from tests.faults.sentinel import Launcher
from tests.ports import reserved_port
from tests.redis_cluster import redis_cluster
from tests.waiting import TIMEOUT_S, eventually

pytestmark = pytest.mark.long

NOBODY = {"HONE_PORT": "1"}


def found(output: str, subject: str) -> list[tuple[str, str, str]]:
    """Return level, text and advice of the findings about a subject."""
    read = json.loads(output)
    return [
        (entry["level"], entry["text"], entry["advice"])
        for entry in read
        if entry["subject"] == subject
    ]


@contextmanager
def configured(redis_url: str, name: str, value: str) -> Iterator[None]:
    """Change one setting of the server of the tests for a while."""
    with Redis.from_url(redis_url, decode_responses=True, socket_timeout=TIMEOUT_S) as redis:
        before = redis.config_get(name)[name]
        redis.config_set(name, value)
        yield
        redis.config_set(name, before)


def test_a_running_service_is_found_to_work(hone: Run, tmp_path: Path) -> None:
    where = {
        "HONE_DATA_DIR": str(tmp_path),
        "HONE_SECRET_KEY": "a secret of some length",
        "HONE_LEASE_S": "60",  # a worker that must wait for the processor is still one
    }
    with reserved_port() as port, running("serve", **where, HONE_PORT=str(port)) as serve:
        where["HONE_PORT"] = str(port)
        assert serve.says("Hone is ready")
        seen = hone("doctor", "--models", "--json", **where)
        assert seen.exit_code == 0
        assert {entry["level"] for entry in json.loads(seen.stdout)} <= {"ok", "warning"}
        (level, text, _), *_ = found(seen.stdout, "workers")
        assert level == "ok"
        assert f"release {version('hone')}, Python 3." in text
        ((level, text, _),) = found(seen.stdout, "model calls")
        assert (level, "offline:editor answered" in text) == ("ok", True)
        ((level, text, _),) = found(seen.stdout, "api")
        assert (level, "is ready" in text) == ("ok", True)
        with Redis.from_url(url_of_running(tmp_path), socket_timeout=TIMEOUT_S) as redis:
            redis.config_set("appendfsync", "no")
            redis.zadd(keys.WORKERS, {"another": (time.time() + 60) * 1000})
            redis.hset("rq:worker:another", "hone_release", "0.0.9")
        changed = hone("doctor", "--json", **where).stdout
        assert [diagnosis[2] for diagnosis in found(changed, "redis disk")] == [
            "set `appendfsync everysec`"
        ]
        assert ("warning", True) in [
            (diagnosis[0], "0.0.9" in diagnosis[1]) for diagnosis in found(changed, "workers")
        ]


def test_a_cluster_is_examined_and_a_slot_that_moves_key_by_key_is_a_failure(
    hone: Run, tmp_path: Path
) -> None:
    with redis_cluster(tmp_path) as cluster:
        where = {"HONE_REDIS_URL": cluster.url, **NOBODY}
        whole = found(hone("doctor", "--json", **where).stdout, "redis cluster")
        assert [level for level, *_ in whole] == ["ok"]
        assert whole[0][1].startswith("6 nodes; all keys are on 127.0.0.1:")
        with cluster.moving_key_by_key():
            moving = json.loads(hone("doctor", "--json", **where).stdout)
        texts = [it["text"] for it in moving if it["level"] == "failure"]
        assert any("key by key" in it for it in texts)
        (replica,) = cluster.replicas_of(cluster.owner)
        replica.kill()
        assert eventually(lambda: not cluster.replicas_of(cluster.owner))
        alone = found(hone("doctor", "--json", **where).stdout, "redis cluster")
        assert "add a replica to its shard" in [advice for *_, advice in alone]


def test_a_command_that_redis_lacks_is_a_failure(hone: Run, tmp_path: Path) -> None:
    with ExitStack() as ending:
        server = Launcher(tmp_path, ending).start("server", "--rename-command", "WAIT", "")
        where = {"HONE_REDIS_URL": f"redis://{server.host}:{server.port}", **NOBODY}
        seen = found(hone("doctor", "--json", **where).stdout, "redis")
    assert ("failure", "it does not have WAIT, which Hone needs") in [it[:2] for it in seen]


def test_what_prevents_work_is_a_failure(hone: Run, redis_url: str) -> None:
    where = {"HONE_REDIS_URL": redis_url, "HONE_HOST": "0.0.0.0", **NOBODY}
    with Redis.from_url(redis_url, socket_timeout=TIMEOUT_S) as client:
        client.set(keys.FORMAT, "1.0")  # it was used before it was full
    with configured(redis_url, "maxmemory", "1mb"):
        seen = hone("doctor", "--json", HONE_MODEL="openai:gpt-5-mini", **where)
    assert seen.exit_code == 1
    for subject, words in {
        "redis": "the memory of Redis is full",
        "access": "401 to everybody",
        "redis memory": "new refinements are refused",
        "models": "openai has no key",
    }.items():
        assert ("failure", True) in [
            (diagnosis[0], words in diagnosis[1]) for diagnosis in found(seen.stdout, subject)
        ]
    assert [diagnosis[0] for diagnosis in found(seen.stdout, "api")] == ["warning"]


def test_an_unreachable_or_unsuitable_redis_is_one_failure_among_others(
    hone: Run, redis_url: str
) -> None:
    absent = hone("doctor", "--json", HONE_REDIS_URL="redis://127.0.0.1:1", **NOBODY)
    assert absent.exit_code == 1
    assert found(absent.stdout, "redis")[0][1].startswith("Redis is unreachable: Error 111 ")
    assert found(absent.stdout, "models")
    with configured(redis_url, "maxmemory-policy", "allkeys-lru"):
        evicting = hone("doctor", "--json", HONE_REDIS_URL=redis_url, **NOBODY)
    ((level, text, advice),) = found(evicting.stdout, "redis")
    assert (level, "maxmemory-policy is allkeys-lru" in text) == ("failure", True)
    assert advice == ""  # the text says what to change


def test_a_redis_that_refuses_writes_or_the_password_is_not_taken_for_another_fault(
    hone: Run, redis_url: str
) -> None:
    where = {"HONE_REDIS_URL": redis_url, **NOBODY}
    works = hone("doctor", "--json", **where).stdout
    assert [text for _, text, _ in found(works, "workers")] == [
        "none is running: submitted refinements wait"
    ]
    with configured(redis_url, "min-replicas-to-write", "1"):
        refusing = hone("doctor", "--json", **where).stdout
    said = [entry[:2] for entry in found(refusing, "redis")]
    assert ("failure", "Redis refuses writes: refinements stand still") in said
    assert found(refusing, "workers") == []
    with configured(redis_url, "requirepass", "secret"):
        refused = hone("doctor", "--json", **where).stdout
    ((_, text, advice),) = found(refused, "redis")
    assert text.startswith("Redis refuses the password: ")
    assert "a password" in advice


def test_the_api_is_asked_with_the_key_and_its_refusals_and_warnings_are_findings(
    hone: Run, server: ScriptedApi, redis_url: str
) -> None:
    def said(answer: CannedResponse, **where: str) -> list[tuple[str, str, str]]:
        server.answers["GET /readyz"] = [answer]
        port = server.url.rpartition(":")[2]
        seen = hone("doctor", "--json", HONE_REDIS_URL=redis_url, HONE_PORT=port, **where)
        return found(seen.stdout, "api")

    ((level, text, advice),) = said(CannedResponse('{"code": "x", "detail": "no such key"}', 401))
    assert (level, advice.startswith("set HONE_API_KEY")) == ("warning", True)
    assert text == f"{server.url} refuses requests without a key: no such key"
    away = CannedResponse('{"code": "unavailable", "detail": "Redis timed out"}', 503)
    ((level, text, _),) = said(away)
    assert (level, text) == ("failure", f"{server.url} answers, but is not ready: Redis timed out")
    ready = CannedResponse('{"workers": 0, "warnings": ["cell 1 is away"]}')
    (first, *_), (level, text, _) = said(ready, HONE_API_KEY="hone_1")
    assert (first, level, text) == ("ok", "warning", "cell 1 is away")
    assert server.asked[-1].authorization == "Bearer hone_1"


def test_keys_made_with_another_secret_key_are_refused_and_do_not_count(
    hone: Run, redis_url: str
) -> None:
    def said(secret: str) -> list[tuple[str, str]]:
        where = {"HONE_REDIS_URL": redis_url, "HONE_SECRET_KEY": secret, **NOBODY}
        return [entry[:2] for entry in found(hone("doctor", "--json", **where).stdout, "access")]

    for secret in ("a" * 16, "b" * 16):
        made = hone("keys", "create", HONE_REDIS_URL=redis_url, HONE_SECRET_KEY=secret)
        assert made.exit_code == 0
    lost = "1 API keys were made with another HONE_SECRET_KEY: the API answers 401"
    assert said("a" * 16) == [("warning", lost), ("ok", "1 API keys work")]
    assert said("c" * 16) == [("failure", lost.replace("1", "2", 1))]


def test_models_that_take_no_calls_are_those_of_the_key_that_is_set(
    hone: Run, redis_url: str
) -> None:
    where = {"HONE_REDIS_URL": redis_url, "HONE_MODEL": "openai:x", **NOBODY}

    async def refuse(key: str) -> None:
        settings = Settings().model_copy(update={"openai_api_key": SecretStr(key)})
        fingerprint = settings.fingerprint_of(BY_NAME["openai"])
        refused = PermitReport(number=1, key_reason="unauthorized", detail="wrong key")
        async with open_permit_exchange(Settings(redis_url=redis_url)) as shared:
            assert shared
            await shared.exchange(f"openai:x@{fingerprint}", f"openai@{fingerprint}", refused)

    hone("doctor", **where)  # marks the format of an empty Redis
    asyncio.run(refuse("replaced"))
    now = {**where, "HONE_OPENAI_API_KEY": "new"}
    levels = [level for level, *_ in found(hone("doctor", "--json", **now).stdout, "models")]
    assert set(levels) == {"ok"}
    now["HONE_OPENAI_API_KEY"] = "replaced"
    *_, (level, text, _) = found(hone("doctor", "--json", **now).stdout, "models")
    assert (level, text.startswith("openai takes no calls since ")) == ("warning", True)
    assert text.endswith("it refused the API key: wrong key")


def test_misspelt_variables_are_named_with_what_was_meant(
    hone: Run, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("HONE_SECRETKEY=0123456789abcdef\n", encoding="utf-8")
    where = {"HONE_REDIS_URL": redis_url, "HONE_CONCURENCY": "5", **NOBODY}
    right = {"HONE_PROVIDER_NEAR_BASE_URL": "http://127.0.0.1:9", "HONE_OPENAI_API_KEY": "k"}
    with chdir(tmp_path):
        seen = hone("doctor", "--json", **where, **right).stdout
    assert found(seen, "configuration") == [
        ("warning", "HONE_CONCURENCY is not read by Hone", "did you mean HONE_CONCURRENCY?"),
        ("warning", "HONE_SECRETKEY is not read by Hone", "did you mean HONE_SECRET_KEY?"),
    ]


def test_traces_that_cannot_be_exported_are_named_with_the_variable(
    hone: Run, redis_url: str
) -> None:
    where = {"HONE_REDIS_URL": redis_url, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", **NOBODY}
    ((level, text, _),) = found(hone("doctor", "--json", **where).stdout, "traces")
    assert (level, text) == ("ok", "exported to http://c:4317")
    grpc = hone("doctor", "--json", OTEL_EXPORTER_OTLP_PROTOCOL="grpc", **where).stdout
    ((level, text, _),) = found(grpc, "traces")
    assert (level, "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'" in text) == ("warning", True)


def test_a_model_that_refuses_is_named_with_its_refusal(
    hone: Run, server: ScriptedApi, redis_url: str
) -> None:
    refusal = CannedResponse('{"error": {"message": "no such key"}}', 401)
    server.answers["POST /chat/completions"] = [refusal]
    where = {"HONE_PROVIDER_NEAR_BASE_URL": server.url, "HONE_MODEL": "near:small"}
    seen = hone("doctor", "--models", "--json", HONE_REDIS_URL=redis_url, **where, **NOBODY)
    ((level, text, _),) = found(seen.stdout, "model calls")
    assert level == "failure"
    assert text.startswith("near:small: ")
    assert "no such key" in text


def test_every_variable_of_the_example_file_is_known() -> None:
    example = (Path(__file__).parents[2] / ".env.example").read_text(encoding="utf-8")
    named = set(re.findall(r"^#? ?(HONE_[A-Z_]+)=", example, re.MULTILINE))
    assert len(named) > 20
    assert {name for name in named if not PROVIDER_VARIABLE.match(name)} <= known_variables()


def test_a_service_without_keys_that_has_another_name_than_localhost_is_named(
    hone: Run, server: ScriptedApi, redis_url: str
) -> None:
    def said(**where: str) -> tuple[str, str, str]:
        seen = hone("doctor", "--json", HONE_REDIS_URL=redis_url, HONE_SECRET_KEY="s" * 16, **where)
        (diagnosis,) = found(seen.stdout, "access")
        return diagnosis

    for where in (
        {"HONE_ALLOWED_HOSTS": "hone.example.com"},
        {"HONE_ROOT_PATH": "/hone"},
        {"HONE_SERVER": "https://hone.invalid"},
    ):
        level, text, advice = said(**where, **NOBODY)
        assert (level, next(iter(where)) in text) == ("warning", True)
        assert "hone keys create --admin" in advice
    assert said(HONE_SERVER="http://127.0.0.1:1", **NOBODY)[0] == "ok"
    server.answers["GET /readyz"] = [CannedResponse('{"workers": 0, "warnings": []}')]
    elsewhere = server.url.replace("127.0.0.1", "0.0.0.0")
    level, text, _ = said(HONE_SERVER=elsewhere, **NOBODY)
    assert (level, f"whoever reaches {elsewhere}" in text) == ("failure", True)
