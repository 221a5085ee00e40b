"""`make upgrades OLD=COMMIT`: upgrade from a commit to this version and back, under traffic."""

import argparse
import asyncio
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.upgrades.trial import upgrade_and_roll_back

ROOT = Path(__file__).parent.parent.parent


def extracted(commit: str, folder: Path) -> Path:
    """Write the code of a commit into a folder and return it."""
    names = ("app", "workers", "extras", "pyproject.toml")
    packages = ["git", "-C", str(ROOT), "archive", commit, *names]
    archive = subprocess.run(packages, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    _describe(folder)
    return folder


def _describe(folder: Path) -> None:
    """Let an old version have its own entry points, not those of the version installed here."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    described = folder / f"{project['name']}-{project['version']}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project.get("entry-points", {}).items()
    (described / "entry_points.txt").write_text(
        "\n".join(
            f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points.items())
            for group, points in groups
        )
    )


def main() -> int:
    """Print what became of everything, by SIGTERM and by SIGKILL; 1 if something was lost."""
    parser = argparse.ArgumentParser(prog="make upgrades")
    parser.add_argument("old", help="a commit or tag that `git archive` takes")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each phase")
    chosen = parser.parse_args()
    is_bad = False
    with TemporaryDirectory(prefix="hone-upgrades-") as directory:
        folder = Path(directory)
        old = extracted(chosen.old, folder / "old")
        for stop in (signal.SIGTERM, signal.SIGKILL):
            run = folder / stop.name
            run.mkdir()
            outcome = asyncio.run(
                upgrade_and_roll_back(run, old, None, phase_s=chosen.seconds, stop=stop)
            )
            print(f"workers ended by {stop.name}: {outcome.summary()}")
            bad = outcome.lost + outcome.doubled + outcome.gaps
            is_bad |= bad > 0 or outcome.statuses.keys() != {"succeeded"}
            is_bad |= outcome.repeated > (outcome.in_flight if stop is signal.SIGKILL else 0)
            shutil.rmtree(run)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
