"""`hone demo`: a rough text gets better in front of one's eyes, with no key and no network."""

import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console

from app.cli.client import Client
from app.cli.display import watch
from app.cli.formatting import say
from app.cli.processes import CrashWatch, free_port, service, url_of, wait_until_ready
from app.contract.snapshot import Snapshot
from app.local.interrupts import Interrupts
from app.settings import Settings

MODEL = "offline:editor"
HOST = "127.0.0.1"


def demo(settings: Settings, console: Console) -> Snapshot:
    """Run a service of one's own in a temporary directory, refine the rough text, end it all."""
    vigil = CrashWatch()
    with Interrupts() as interrupts, tempfile.TemporaryDirectory(prefix="hone-demo-") as directory:
        own = settings.model_copy(update=_apart(Path(directory)))
        with (
            service(own, vigil.emit, interrupts) as supervisor,
            Client(url_of(own)) as client,
        ):
            wait_until_ready(client, lambda: vigil.look(supervisor))
            submitted = client.submit(request())
            say(
                console, f"Refining a rough text of {len(rough_text().split())} words with {MODEL}."
            )
            return watch(client, submitted.id, console, meanwhile=lambda: vigil.look(supervisor))


def rough_text() -> str:
    """A business letter as people write them in a hurry."""
    return files("app.cli").joinpath("demo.txt").read_text(encoding="utf-8").strip()


def request() -> dict[str, Any]:
    """What the demonstration submits."""
    return {
        "task": "Make this message easy to read. Keep every fact.",
        "draft": rough_text(),
        "criteria": [
            {"name": "readability", "weight": 2},
            {"name": "conciseness", "weight": 2},
            {"name": "spelling", "floor": 0.9},
            {"name": "active voice"},
        ],
        "threshold": 0.82,
        "max_iterations": 6,
        "models": {"generator": MODEL, "critic": MODEL},
    }


def _apart(directory: Path) -> dict[str, Any]:
    """Settings that share nothing with a Hone that may run already."""
    return {
        "host": HOST,
        "port": free_port(HOST),
        "redis_url": "",
        "data_dir": directory,
        "model": MODEL,
        "grace_s": 3.0,
    }
