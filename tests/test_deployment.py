"""Manifests for Kubernetes and the compose file, and what they ask of Prometheus and Redis.

Rules are checked in the files; what kustomize makes of them is, where it is installed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from kubernetes_validate import latest_version, validate
from prometheus_client import REGISTRY
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

import app.telemetry.metrics  # noqa: F401 - registers what Hone measures
from app.local.embedded import find_redis
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from tests.ports import reserved_port
from tests.redis_cluster import redis_cluster
from tests.waiting import TIMEOUT_S

ROOT = Path(__file__).parent.parent
KUBERNETES = ROOT / "deploy" / "kubernetes"
PAGE = ROOT / "docs" / "deploying.md"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LATEST = int(latest_version().split(".")[1])
SUPPORTED = [f"1.{LATEST}", f"1.{LATEST - 3}"]
"""Releases of Kubernetes: the newest of which schemas are installed, and the third before."""

CUSTOM = {"ScaledObject", "Kustomization", "Component"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer", "minimum": 1}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {"required": [*required], "properties": properties, "additionalProperties": False}


SCALED_OBJECT = closed(
    "scaleTargetRef",
    "triggers",
    scaleTargetRef=closed("name", name=TEXT),
    pollingInterval=NUMBER,
    minReplicaCount=NUMBER,
    maxReplicaCount=NUMBER,
    advanced=closed(horizontalPodAutoscalerConfig=closed(behavior={"type": "object"})),
    triggers={
        "minItems": 1,
        "items": closed(
            "type",
            "metadata",
            type={"const": "prometheus"},
            name=TEXT,
            metricType={"enum": ["Value", "AverageValue"]},
            metadata=closed(
                "serverAddress",
                "query",
                "threshold",
                serverAddress=TEXT,
                query=TEXT,
                threshold={"type": "string", "pattern": r"^\d+$"},
                ignoreNullValues={"const": "false"},
            ),
        ),
    },
)
"""The fields of KEDA's ScaledObject that are used here, as its reference describes them."""


@cache
def manifests() -> tuple[dict[str, Any], ...]:
    """Every resource of every file."""
    files = sorted(KUBERNETES.rglob("*.yaml"))
    return tuple(it for file in files for it in yaml.safe_load_all(file.read_text()))


@cache
def rendered(overlay: str) -> tuple[dict[str, Any], ...]:
    """What kustomize makes of an overlay."""
    programs = {"kustomize": ["kustomize", "build"], "kubectl": ["kubectl", "kustomize"]}
    command = next((it for name, it in programs.items() if shutil.which(name)), None)
    if command is None:
        pytest.skip("neither kustomize nor kubectl is installed")
    folder = str(KUBERNETES / "overlays" / overlay)
    done = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())


def the(kind: str, name: str, among: tuple[dict[str, Any], ...] | None = None) -> dict[str, Any]:
    [found] = [
        it
        for it in among or manifests()
        if it["kind"] == kind and re.fullmatch(rf"{name}(-[a-z0-9]{{10}})?", it["metadata"]["name"])
    ]
    return dict(found)


def workloads(among: tuple[dict[str, Any], ...] | None = None) -> list[dict[str, Any]]:
    return [it for it in among or manifests() if it["kind"] in {"Deployment", "StatefulSet"}]


def environment(file: str) -> dict[str, str]:
    lines = (KUBERNETES / file).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def assert_valid(resources: tuple[dict[str, Any], ...], version: str) -> None:
    for it in resources:
        if it["kind"] not in CUSTOM:
            validate(it, version, strict=True)
        elif it["kind"] == "ScaledObject":
            jsonschema.validate(it["spec"], SCALED_OBJECT)


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_manifest_is_valid(version: str) -> None:
    assert_valid(manifests(), version)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_is_valid_once_rendered(overlay: str) -> None:
    resources = rendered(overlay)
    assert_valid(resources, SUPPORTED[0])
    assert {it["metadata"].get("namespace", "hone") for it in resources} == {"hone"}
    for workload in workloads(resources):  # what it refers to is there; Secrets are the operator's
        maps = re.findall(r"'config[Mm]ap(?:Ref)?': \{'name': '([^']+)'", str(workload))
        assert maps
        assert all(the("ConfigMap", it, resources) for it in maps)


def test_an_unknown_field_is_noticed() -> None:
    workload = json.loads(json.dumps(the("Deployment", "hone-worker")))
    workload["spec"]["template"]["spec"]["containers"][0]["readOnlyRootFs"] = True
    with pytest.raises(jsonschema.ValidationError, match="readOnlyRootFs"):
        validate(workload, SUPPORTED[0], strict=True)


@pytest.mark.parametrize("workload", workloads(), ids=lambda it: str(it["metadata"]["name"]))
def test_every_pod_has_no_more_rights_than_it_needs(workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert (context["runAsNonRoot"], context["seccompProfile"]) == (
        True,
        {"type": "RuntimeDefault"},
    )
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe"} <= set(container)
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}
        assert not [it for it in container.get("env", ()) if "value" in it]


def test_no_secret_is_in_a_file() -> None:
    assert [it["metadata"]["name"] for it in manifests() if it["kind"] == "Secret"] == []
    settings = environment("base/settings.env")
    assert [name for name in settings if re.search("KEY|SECRET|PASSWORD|REDIS_URL", name)] == []


def test_the_settings_of_the_manifests_are_settings_of_hone() -> None:
    given = {name.lower(): value for name, value in environment("base/settings.env").items()}
    fields = {name.removeprefix("hone_"): value for name, value in given.items()}
    assert fields.keys() <= Settings.model_fields.keys()
    settings = Settings.model_validate(fields)
    assert settings.port == 8080
    assert settings.metrics_at() == ("0.0.0.0", 9464)


def test_every_pod_is_given_longer_to_end_than_it_takes() -> None:
    grace_s = float(environment("base/settings.env")["HONE_GRACE_S"])
    for name in ("hone-api", "hone-worker", "hone-webhooks"):
        pod = the("Deployment", name)["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= grace_s + 10
    assert COMPOSE["x-hone"]["stop_grace_period"] == "5m"  # longer than any that is sensible


def test_the_images_are_of_this_version() -> None:
    kustomizations = [it for it in manifests() if it["kind"] == "Kustomization"]
    tags = {image["newTag"] for it in kustomizations for image in it.get("images", ())}
    assert tags == {VERSION}
    assert COMPOSE["x-hone"]["image"] == f"hone:{VERSION}"


def foreign_images() -> Iterator[str]:
    for workload in workloads():
        yield from (it["image"] for it in workload["spec"]["template"]["spec"]["containers"])
    yield from (it["image"] for it in COMPOSE["services"].values())
    yield from re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text())


def test_images_of_others_are_pinned_by_version_and_digest() -> None:
    others = {it for it in foreign_images() if not re.fullmatch(r"hone(:.*)?", it)}
    assert len(others) == 4
    pinned = re.compile(r"[a-z/]+:v?\d+\.\d+\.\d+(-[a-z0-9]+)?@sha256:[0-9a-f]{64}")
    assert [it for it in others if not pinned.fullmatch(it)] == []


def test_compose_services_are_hardened_and_checked() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "healthcheck" in service or name == "api", name  # its image has one
        published = service.get("ports", ())
        assert [it for it in published if not it.startswith("127.0.0.1:")] == [], name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists(), volume


def test_settings_reach_containers_whole_but_those_that_the_network_fixes() -> None:
    hone = [it for it in COMPOSE["services"].values() if it["image"].startswith("hone:")]
    assert len(hone) == 4
    for service in hone:
        assert service["env_file"] == [{"path": ".env", "required": False}]
        assert service["extra_hosts"] == ["host.docker.internal:host-gateway"]
        fixed = {name for name, it in service["environment"].items() if it is not None}
        network = {"REDIS_URL", "HOST", "PORT", "ALLOWED_HOSTS", "METRICS_ADDRESS"}
        assert fixed == {f"HONE_{it}" for it in (*network, "SECRET_KEY", "API_KEY")}


def test_the_first_command_of_compose_generates_what_it_requires() -> None:
    required = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text()))
    for page in (PAGE, ROOT / "docker-compose.yml"):
        (command,) = re.findall(r"printf '(.*?)' .* >> \.env", page.read_text())
        assert set(re.findall(r"([A-Z][A-Z_]+)=%s", command)) == required


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
def test_compose_reads_the_file(tmp_path: Path) -> None:
    if subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("docker has no compose")
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    given = {"REDIS_PASSWORD": "p", "HONE_SECRET_KEY": "s" * 32, "HONE_GRACE_S": "7"}
    given["HONE_PROVIDER_NEAR_BASE_URL"] = "http://host.docker.internal:11434/v1"
    (tmp_path / ".env").write_text("".join(f"{name}={it}\n" for name, it in given.items()))
    command = ["docker", "compose", "config", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worker = json.loads(done.stdout)["services"]["worker"]["environment"]
    assert given.items() <= worker.items()


def test_redis_of_compose_wants_a_password_and_keeps_what_it_accepted() -> None:
    redis = COMPOSE["services"]["redis"]
    command = redis["command"][-1]
    for option in ("--appendonly yes", "noeviction", '--requirepass "$$REDIS_PASSWORD"'):
        assert option in command
    assert COMPOSE["x-environment"]["HONE_REDIS_URL"].startswith("redis://:${REDIS_PASSWORD:?")
    assert redis["networks"] == ["data"]
    assert COMPOSE["networks"]["data"] == {"internal": True}


def triggers() -> dict[str, dict[str, Any]]:
    spec = the("ScaledObject", "hone-worker")["spec"]
    return {it["name"]: it for it in spec["triggers"]}


def test_the_scaler_asks_for_metrics_that_exist_and_fits_the_slots_of_a_worker() -> None:
    known = {f"{it.name}{suffix}" for it in REGISTRY.collect() for suffix in ("", "_total")}
    asked = {name for it in triggers().values() for name in re.findall(r"hone_\w+", str(it))}
    assert asked <= known
    assert asked
    slots = int(environment("base/settings.env")["HONE_CONCURRENCY"])
    assert int(triggers()["held"]["metadata"]["threshold"]) == slots * 3 / 4
    assert the("Deployment", the("ScaledObject", "hone-worker")["spec"]["scaleTargetRef"]["name"])


SAMPLES = {
    'hone_standing{what="waiting", instance="a"}': "0x20 40x20",
    'hone_standing{what="waiting", instance="b"}': "0x20 40x20",
    'hone_standing{what="held", instance="a"}': "300x40",
    'hone_standing{what="held", instance="b"}': "300x40",
    'hone_claims_total{kind="first", instance="c"}': "0+15x40",  # one a second
    'hone_claims_total{kind="first", instance="d"}': "0+15x40",
    'hone_claims_total{kind="resumed", instance="d"}': "0+150x40",
}
"""Two API processes that see the same Redis, and two workers; a value every 15 s."""

NOTHING_BEGINS = {
    'hone_standing{what="waiting"}': "5x40",
    'hone_standing{what="held"}': "0x40",
}
EXPECTED = [
    (SAMPLES, "wait", "4m", 0),
    (SAMPLES, "wait", "9m", 20),  # 40 wait, 2 begin a second
    (SAMPLES, "wait", "6m", 0),  # they have not waited for a minute yet
    (SAMPLES, "held", "5m", 300),
    (NOTHING_BEGINS, "wait", "9m", 50),  # no worker has begun any
    (NOTHING_BEGINS, "held", "9m", 0),
]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_scaler_measures_the_wait_and_the_work_in_progress(tmp_path: Path) -> None:
    cases = [
        {
            "interval": "15s",
            "input_series": [{"series": name, "values": it} for name, it in samples.items()],
            "promql_expr_test": [
                {
                    "expr": f"sum({triggers()[name]['metadata']['query']})",
                    "eval_time": at,
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
            ],
        }
        for samples, name, at, value in EXPECTED
    ]
    rules = tmp_path / "scaling_test.yml"
    rules.write_text(json.dumps({"evaluation_interval": "15s", "tests": cases}))
    command = ["promtool", "test", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def users_of_the_page() -> str:
    """The file of Redis's users that the page has the operator write."""
    [users] = re.findall(r"cat > users\.acl <<END\n(.*?)END\n", PAGE.read_text(), re.DOTALL)
    return str(users).replace("$REDIS_PASSWORD", "secret")


@contextmanager
def redis_of_the_cluster(folder: Path) -> Iterator[int]:
    """Run a server with the configuration and the users of the cluster, and yield its port."""
    (folder / "users.acl").write_text(users_of_the_page())
    written = (KUBERNETES / "components" / "redis" / "redis.conf").read_text()
    made = written.replace("/run/redis/", f"{folder}/").replace("dir /data", f"dir {folder}")
    (folder / "redis.conf").write_text(made)
    with reserved_port() as port:
        command = [str(find_redis().path), str(folder / "redis.conf"), "--port", str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield port
        finally:
            server.terminate()
            server.wait()


async def test_redis_of_the_cluster_serves_hone_and_nobody_else(tmp_path: Path) -> None:
    with redis_of_the_cluster(tmp_path) as port:
        retry = Retry(ConstantBackoff(0.1), 200)
        with Redis(port=port, retry=retry) as stranger:  # as the probes of the pod
            assert stranger.ping()
            with pytest.raises(NoPermissionError):
                stranger.get("x")
        settings = Settings(redis_url=f"redis://hone:secret@127.0.0.1:{port}/0")
        async with open_store(settings, RefinementQueue("hone")) as store:
            assert await store.administration.waiting() == 0


CLUSTER = yaml.safe_load((ROOT / "deploy" / "cluster" / "compose.yml").read_text())
NODES = CLUSTER["services"]


def test_nodes_of_compose_keep_the_addresses_by_which_hone_and_they_know_them() -> None:
    networks = [it["networks"]["data"] for it in NODES.values() if "ipv4_address" in str(it)]
    addresses = [it["ipv4_address"] for it in networks]
    assert len(set(addresses)) == 6
    [for_others] = CLUSTER["networks"]["data"]["ipam"]["config"]
    assert not any(ip_address(it) in ip_network(for_others["ip_range"]) for it in addresses)
    for name in ("api", "worker", "webhooks", "admin-key"):
        url = NODES[name]["environment"]["HONE_REDIS_URL"]
        assert url.rpartition("@")[2].split(",") == addresses[:3]
        assert [*NODES[name]["depends_on"]] == ["join"]
    assert {it["image"] for it in NODES.values() if "image" in it} == {
        COMPOSE["services"]["redis"]["image"]
    }


async def test_nodes_of_the_examples_carry_hone(tmp_path: Path) -> None:
    written = (KUBERNETES / "components" / "redis-cluster" / "node.conf").read_text()
    conf = tmp_path / "node.conf"
    conf.write_text(written.replace("dir /data", ""))
    with redis_cluster(tmp_path / "nodes", str(conf)) as cluster:
        settings = Settings(redis_url=cluster.url)
        async with open_store(settings, RefinementQueue("hone")) as store:
            assert await store.administration.waiting() == 0


GETENT = '#!/bin/sh\npod=${2#redis-cluster-}\necho "127.0.$ADDRESSES.$((11 + ${pod%%.*})) $2"\n'
"""Resolves the name of a pod to the address that it has now."""


class ClusterPods:
    """The six pods of the cluster's nodes as processes, each at an address of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, 10_000 + os.getpid() % 20_000
        (folder / "getent").write_text(GETENT)
        (folder / "getent").chmod(0o755)
        conf = (KUBERNETES / "components" / "redis-cluster" / "node.conf").read_text()
        for number in range(6):
            (folder / str(number)).mkdir()
            (folder / str(number) / "node.conf").write_text(conf.replace("dir /data", ""))

    def process(self, script: str, addresses: int, pod: int) -> dict[str, Any]:
        """Return how the script of a container is run: it addresses its own node and port."""
        ip = f"127.0.{addresses}.{11 + pod}"
        own = f"node.conf --bind {ip} --port {self._port}"
        for before, after in (
            ("redis-cluster-0.redis-cluster ", f"127.0.{addresses}.11 "),
            ("redis-cli ", f"redis-cli -h {ip} -p {self._port} "),
            ("/etc/redis/node.conf", own),
        ):
            script = script.replace(before, after)
        env = {"PATH": f"{self._folder}:{os.environ['PATH']}", "REDISCLI_AUTH": "secret"}
        return {
            "args": ["sh", "-c", re.sub(r"\b6379\b", str(self._port), script)],
            "cwd": self._folder / str(pod),
            "env": {**env, "POD_IP": ip, "ADDRESSES": str(addresses)},
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }

    def run(self, script: str, addresses: int, pod: int) -> None:
        """Run a script to its end."""
        subprocess.run(**self.process(script, addresses, pod), timeout=TIMEOUT_S, check=True)

    @contextmanager
    def started(self, addresses: int) -> Iterator[None]:
        """Run all nodes, each in a session with what runs beside it."""
        [node] = the("StatefulSet", "redis-cluster")["spec"]["template"]["spec"]["containers"]
        scripts = [self.process(node["command"][-1], addresses, pod) for pod in range(6)]
        nodes = [subprocess.Popen(**it, start_new_session=True) for it in scripts]
        try:
            yield
        finally:
            for each in nodes:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_nodes_of_a_cluster_find_each_other_where_all_have_other_addresses(tmp_path: Path) -> None:
    pods = ClusterPods(tmp_path)
    [join] = the("Job", "redis-cluster-join")["spec"]["template"]["spec"]["containers"]
    joined = f"until ({join['command'][-1]}); do sleep 0.2; done"
    all_known = (
        'until [ "$(redis-cli cluster nodes | grep -c " connected")" = 6 ]; do sleep 0.2; done'
    )
    with pods.started(1):
        pods.run(joined, 1, 5)
        pods.run(all_known, 1, 0)
    with pods.started(2):
        pods.run(all_known, 2, 0)
