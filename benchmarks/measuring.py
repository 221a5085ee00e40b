"""One run of one contender, with fresh processes that are measured and then ended."""

import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from app.local.embedded import EmbeddedRedis
from benchmarks.contenders import Cast, Contender, Setup
from benchmarks.loop import CALLS
from benchmarks.processes import ServiceProgram, cpu_s, peak_mb
from benchmarks.transport import self_signed


@dataclass(frozen=True)
class MeasuredRun:
    """The figures of a run; names with a slash belong to one process: `cpu_ms/worker`."""

    contender: str
    latency_ms: int
    figures: dict[str, float]


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return p50 and p99."""
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]


@dataclass(frozen=True)
class StartedRun:
    """What a run consists of, started and ready."""

    cast: Cast
    redis_pid: int
    model: ServiceProgram
    model_origin: str
    certificate: str | None


@contextmanager
def started(
    contender: Contender, latency_ms: int, count: int, under: Sequence[str] = ()
) -> Iterator[StartedRun]:
    """Start a contender with a model server and a Redis of its own (AOF everysec, noeviction).

    `under` is a command that runs the processes under test.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="hone-bench-")))
        redis = stack.enter_context(EmbeddedRedis(directory))
        certificate = self_signed(directory) if contender.is_tls else None
        speaks = ("--certificate", certificate) if certificate else ()
        command = ("benchmarks.stamped", "--latency-ms", latency_ms, *speaks)
        model = stack.enter_context(ServiceProgram("model server", *command, log_dir=directory))
        origin = f"{'https' if certificate else 'http'}://127.0.0.1:{model.heard()['port']}"
        setup = Setup(
            *(f"{origin}/v1", redis.url, directory, count, stack),
            *(tuple(under), certificate, contender.at_once),
        )
        yield StartedRun(contender.start(setup), redis.pid, model, origin, certificate)


def measure(contender: Contender, latency_ms: int, count: int) -> MeasuredRun:
    """Run a contender once, in fresh processes."""
    count = min(count, contender.most or count)
    with started(contender, latency_ms, count) as run:
        cast = run.cast
        pids = {"redis": run.redis_pid, "model": run.model.pid, "driver": cast.driver.pid}
        pids |= {program.name: program.pid for program in cast.tested}
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        facts = driven(cast)
        used = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
        figures = _figures(cast, facts, used, count)
        tls = ssl.create_default_context(cafile=run.certificate) if run.certificate else None
        with urlopen(f"{run.model_origin}/stats", context=tls) as reply:
            counted = json.load(reply)
    if counted["calls"] != count * CALLS:
        raise RuntimeError(f"{contender.name}: {counted['calls']} calls instead of {count * CALLS}")
    return MeasuredRun(
        contender.name, latency_ms, figures | {"in_flight": counted["most_in_flight"]}
    )


def instructions(contender: Contender, latency_ms: int, count: int) -> dict[str, int]:
    """Return the instructions that each process under test ran from its start to its end.

    Valgrind counts them; the kernel's are not among them.
    """
    log = "instructions.%p"
    with TemporaryDirectory() as directory:
        under = ("valgrind", "--tool=cachegrind", "--cache-sim=no")
        files = (f"--log-file={directory}/{log}", "--cachegrind-out-file=/dev/null")
        with started(contender, latency_ms, count, (*under, *files)) as run:
            driven(run.cast)
            found = {}
            for program in run.cast.tested:
                program.leave()
                said = (Path(directory) / log.replace("%p", str(program.pid))).read_text()
                found[program.name] = int(said.rpartition("refs:")[2].replace(",", ""))
    return found


def driven(cast: Cast) -> dict[str, Any]:
    """Let the driver begin; return what it reports at the end."""
    cast.driver.tell("go")
    facts = cast.driver.heard()
    if failures := facts.get("failures"):
        raise RuntimeError(f"{len(failures)} refinements failed, first: {failures[0]}")
    return facts


def _figures(
    cast: Cast, facts: dict[str, Any], used: dict[str, float], count: int
) -> dict[str, float]:
    calls = count * CALLS
    tested = [program.name for program in cast.tested]
    p50, p99 = percentiles(facts["seconds"])
    figures = {
        "count": count,
        "per_s": count / (facts["ended_at"] - facts["started_at"]),
        "cpu_ms": sum(used[name] for name in tested) * 1000 / calls,
        "cpu_ms/all": sum(used[name] for name in (*tested, "redis")) * 1000 / calls,
        "p50_s": p50,
        "p99_s": p99,
        "peak_mb": sum(peak_mb(program.pid) for program in cast.tested),
    }
    figures |= {f"cpu_ms/{name}": spent * 1000 / calls for name, spent in used.items()}
    for name in ("submitted", "since_reply"):
        if facts.get(name):
            p50, p99 = percentiles(facts[name])
            figures |= {f"{name}/p50_ms": p50 * 1000, f"{name}/p99_ms": p99 * 1000}
    return figures
