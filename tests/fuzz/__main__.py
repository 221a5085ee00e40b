"""`python -m tests.fuzz [CASES] [--seed N]`: what a client can send, against a running service.

Requests made up from the OpenAPI document, and hostile ones written by hand. It prints figures, and
what is wrong; the status is 1 if anything is.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pydantic import SecretStr

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.main import create_app
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from tests.e2e.running_service import RunningService, running_service
from tests.fuzz import hostile
from tests.fuzz.generated import Target, generated_at_least

CASES = 20_000
REFINEMENTS = (
    {"draft": "In order to go.", "max_iterations": 2},
    {"draft": "It is what it is.", "review": {"when": "each_iteration"}},
    {"task": "Explain refunds.", "models": {"generator": "openai:test"}},
    {"draft": "In order to go.", "validators": [{"kind": "length", "max_words": 1}]},
)
OF_EACH = 15


async def prepared(service: RunningService) -> Target:
    """Create refinements of several kinds, and an administrator's key, which all then need."""
    api = service.client
    submitted = [await api.post("/v1/refinements", json=it) for it in REFINEMENTS * OF_EACH]
    ids = [str(it.raise_for_status().json()["id"]) for it in submitted]
    async with open_store(service.settings, RefinementQueue(service.settings.queue)) as store:
        keyring = Keyring(store.access, service.settings)
        issued = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    api.headers["Authorization"] = f"Bearer {issued.key}"
    return Target(str(api.base_url), issued.key, issued.id, ids)


async def fuzz(cases: int, seed: int, folder: Path) -> list[str]:
    """Send everything; print a line for each kind of requests, and return what is wrong."""
    operations = sum(map(len, create_app(Settings()).openapi()["paths"].values()))
    key = SecretStr("a secret of a run of the fuzzer")
    async with running_service(folder, secret_key=key, model="offline:editor") as service:
        service.start("app.cli", "webhooks")
        target = await prepared(service)
        print(f"{'':<13}{'requests':>9}{'5xx':>5}{'wrong':>7}{'slowest':>9}{'memory':>9}")
        made = await asyncio.to_thread(generated_at_least, cases, target, folder, seed)
        wrong = list(made.wrong)
        _print("generated", made.statuses, made.wrong, made.slowest, service)
        print(f"done at least once: {len(made.reached)} of {operations} operations\n{made.details}")
        for name, send in hostile.KINDS.items():
            counts = await send(service.client)
            _print(name, counts.statuses, counts.wrong, counts.slowest, service)
            wrong += counts.wrong
    return wrong


def _print(
    name: str,
    statuses: Counter[int],
    wrong: list[str],
    slowest: tuple[float, str],
    service: RunningService,
) -> None:
    failed = sum(count for status, count in statuses.items() if status >= 500)
    took = f"{slowest[0] * 1000:.0f} ms"
    figures = f"{statuses.total():>9}{failed:>5}{len(wrong):>7}{took:>9}{_peak_mib(service):>5} MiB"
    counted = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(f"{name:<13}{figures}  {counted}; slowest: {slowest[1]}", flush=True)


def _peak_mib(service: RunningService) -> int:
    """Return the most memory that the API has had (proc(5), VmHWM)."""
    status = Path(f"/proc/{service.processes[0].pid}/status").read_text()
    return next(int(it.split()[1]) // 1024 for it in status.splitlines() if "VmHWM" in it)


def main() -> int:
    """Run it; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=CASES, help="requests made up")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same requests")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hone-fuzz-") as folder:
        wrong = asyncio.run(fuzz(given.cases, given.seed, Path(folder)))
    print(f"seed {given.seed}, {time.monotonic() - began:.0f} s")
    print("\n".join(wrong) or "nothing is wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
