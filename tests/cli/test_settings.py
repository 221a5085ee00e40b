"""`hone config`, and settings handed on to other processes."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console

from app.cli.processes import environment_of
from app.cli.server_commands import MASK, show_settings
from app.settings import ModelServer, Settings, usable_cores
from tests.cli.conftest import Run

ROOT = Path(__file__).parent.parent.parent
SECRET = "sk-canary-4711"
EVERYTHING = Settings(
    host="::1",
    port=1,
    redis_url="unix:///tmp/x y/redis.sock",
    data_dir=Path("/tmp/x y"),
    model="openai:x",
    providers={"vllm": ModelServer(base_url="http://x:1/v1", api_key=SecretStr(SECRET))},
    grace_s=0.5,
    limits={"openai:gpt-5-mini": {"requests": 500.0, "in_flight": 50.0}},
).model_copy(update={"openai_api_key": SecretStr(SECRET)})


def test_another_process_reads_the_same_settings_from_its_environment(tmp_path: Path) -> None:
    show = "from app.settings import Settings; print(Settings().model_dump())"
    clean = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", show]
    read = subprocess.run(
        command,
        env={**clean, **environment_of(EVERYTHING)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == f"{EVERYTHING.model_dump()}\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_every_setting_is_shown_and_no_secret(terminal: bool) -> None:
    output = io.StringIO()
    url = f"redis+sentinel://me:{SECRET}@host/hone?sentinel_password={SECRET}&ssl_password={SECRET}"
    settings = EVERYTHING.model_copy(update={"redis_url": url})
    show_settings(settings, Console(file=output, force_terminal=terminal, width=300))
    text = output.getvalue()
    assert SECRET not in text
    for variable in environment_of(settings):
        assert variable.removeprefix("HONE_") in text
    assert f"sentinel://me:{MASK}@host/hone?sentinel_password={MASK}&ssl_password={MASK}" in text
    for field in Settings.model_fields.values():
        assert field.description
        assert field.description[:30] in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://me:{SECRET}@host/0", f"redis://me:{MASK}@host/0"),
        (f"redis://:{SECRET}@host/0", f"redis://:{MASK}@host/0"),
        (f"redis://me:a@{SECRET}@host/0", f"redis://me:{MASK}@host/0"),
        (f"redis://me:a/{SECRET}@host/0", f"redis://me:{MASK}@host/0"),
        (f"https://{SECRET}@host/v1", f"https://{MASK}@host/v1"),
        (f"https://host/v1?api_key={SECRET}&x=1", f"https://host/v1?api_key={MASK}&x=1"),
        ("rediss://host/0?ssl_keyfile=/k.pem", "rediss://host/0?ssl_keyfile=/k.pem"),
        ("https://host:8080/v1", "https://host:8080/v1"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, shown: str) -> None:
    output = io.StringIO()
    settings = EVERYTHING.model_copy(update={"openai_base_url": url})
    show_settings(settings, Console(file=output, width=300))
    assert f"HONE_OPENAI_BASE_URL={shown}\n" in output.getvalue()


def test_config_prints_lines_that_a_dotenv_file_can_hold(hone: Run) -> None:
    limits = "openai:x=requests:9,in_flight:2 anthropic:*=tokens:8000000"
    lines = hone("config", HONE_PORT="9999", HONE_LIMITS=limits).stdout.splitlines()
    assert "HONE_PORT=9999" in lines
    assert f"HONE_LIMITS={limits}" in lines
    assert "# Port the API listens on. Default: 8080" in lines


def test_a_setting_that_makes_no_sense_is_named(hone: Run) -> None:
    limits = "opnai:gpt-5-mini=requests:5"
    done = hone("config", HONE_PORT="many", HONE_GRACE_S="-1", HONE_LIMITS=limits, COLUMNS="200")
    assert done.exit_code == 2
    assert "HONE_PORT" in done.stderr
    assert "HONE_LIMITS: there is no provider of 'opnai:gpt-5-mini'" in done.stderr
    assert "HONE_GRACE_S" in done.stderr


REFUSED = {
    "HONE_OPENAI_BASE_URL=127.0.0.1:19100/v1": "HONE_OPENAI_BASE_URL: must begin with http://",
    "HONE_ANTHROPIC_BASE_URL=http://": "HONE_ANTHROPIC_BASE_URL: must begin with http://",
    "HONE_PROVIDER_LOCAL_BASE_URL=localhost:11434/v1": "HONE_PROVIDER_LOCAL_BASE_URL: must begin",
    "HONE_PROVIDER_LOCAL_API_KEY=k": "HONE_PROVIDER_LOCAL_BASE_URL: is required",
    "HONE_PROVIDER_OPENAI_API_KEY=k": "HONE_PROVIDER_OPENAI_...: ",
    "HONE_MODEL=gpt": "HONE_MODEL: must be of the form `provider:name`",
    "HONE_MODEL=foo:bar": "HONE_MODEL: there is no provider of 'foo:bar'; the providers are ",
    "HONE_METRICS_ADDRESS=127.0.0.1:99999": "HONE_METRICS_ADDRESS: '127.0.0.1:99999' is no address",
    **{
        f"HONE_{name}_S={value}": f"HONE_{name}_S: must be at most"
        for name in ("MODEL_TIMEOUT", "GRACE", "LEASE", "REDIS_TIMEOUT", "STALL", "PACK_AFTER")
        for value in ("inf", "1e9")
    },
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_work_is_refused_by_the_name_of_its_variable(hone: Run, given: str) -> None:
    name, _, value = given.partition("=")
    done = hone("config", **{name: value}, COLUMNS="200")
    assert (done.exit_code, REFUSED[given] in done.stderr) == (2, True)


@pytest.mark.parametrize("workers", ["0", "-1", "x", "1000"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(hone: Run, workers: str) -> None:
    done = hone("config", HONE_WORKERS=workers, COLUMNS="200")
    assert (done.exit_code, "HONE_WORKERS" in done.stderr) == (2, True)


VERSION_1 = "9:name=systemd:/\n4:cpu,cpuacct:/docker/one\n"


@pytest.mark.parametrize(
    ("cgroup", "quotas", "cores"),
    [
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {"cpu.max": "max 100000"}, 6),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 6),
        ("0::/\n", {}, 6),
    ],
)
def test_cores_are_those_of_the_quota(
    tmp_path: Path, cgroup: str, quotas: dict[str, str], cores: int
) -> None:
    files = {f"sys/fs/cgroup/{name}": text for name, text in quotas.items()}
    for name, text in (files | {"proc/self/cgroup": cgroup}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path, affine=6) == cores
    assert usable_cores(tmp_path, affine=1) == 1
    assert usable_cores(tmp_path, affine=64) <= 8


def test_a_key_of_a_provider_is_stripped_and_must_fit_into_a_header(hone: Run) -> None:
    server = ModelServer(base_url="http://x", api_key=SecretStr(f" {SECRET}\n"))
    assert server.api_key == SecretStr(SECRET)
    done = hone("config", OPENAI_API_KEY=f"{SECRET}\nx", COLUMNS="200")
    assert done.exit_code == 2
    assert "the key has a character that no HTTP header can carry" in done.stderr
    assert SECRET not in done.stderr
