"""Builds what a release consists of, from the commit that is checked out: `make release`.

Two runs on one commit give the same bytes: every file has the time of the commit.
"""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CONTEXT = (
    *("Dockerfile", ".dockerignore", "pyproject.toml", "requirements-extras.lock"),
    *("requirements-build.lock", "README.md", "LICENSE", "NOTICE"),
    *("app", "workers", "extras", "clients/python"),
)
"""What the image is built from."""


class ReleaseRefused(Exception):
    """Nothing was built; the message says what to do."""


def versions(source: Path) -> dict[str, str]:
    """Return the version that each part states."""
    parts = {"server": source, "Python client": source / "clients" / "python"}
    stated = {
        name: str(tomllib.loads((it / "pyproject.toml").read_text())["project"]["version"])
        for name, it in parts.items()
    }
    package = source / "clients" / "typescript" / "package.json"
    # npm writes 1.0.0-rc.1 for what Python packages call 1.0.0rc1.
    stated["TypeScript client"] = str(Version(json.loads(package.read_text())["version"]))
    return stated


def image_context(source: Path, epoch: int) -> bytes:
    """Return what the image is built from as tar.gz: sorted, and with the time of the commit."""
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_files(source)):
            entry = tarfile.TarInfo(str(path.relative_to(source)))
            entry.size, entry.mtime = path.stat().st_size, epoch
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(plain.getvalue(), mtime=epoch)


def _files(source: Path) -> Iterable[Path]:
    for name in CONTEXT:
        path = source / name
        found = [path] if path.is_file() else [it for it in path.rglob("*") if it.is_file()]
        yield from (it for it in found if "__pycache__" not in it.parts)


def bill_of_materials(source: Path, epoch: int) -> bytes:
    """Return the SBOM in CycloneDX JSON: what `requirements-extras.lock` pins, with the hashes."""
    command = [
        *(sys.executable, "-m", "cyclonedx_py", "requirements", "requirements-extras.lock"),
        *("--pyproject", "pyproject.toml", "--output-reproducible", "--sv", "1.6"),
    ]
    made = _run(command, source, epoch)
    return json.dumps(json.loads(made), indent=1, sort_keys=True).encode() + b"\n"


def release(source: Path, epoch: int, folder: Path) -> None:
    """Build everything from a copy of the repository into a folder."""
    stated = versions(source)
    version = stated["server"]
    if set(stated.values()) != {version}:
        raise ReleaseRefused(f"the versions differ: {stated}")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    for part in (source, source / "clients" / "python"):
        _run(build, part, epoch)
    client = source / "clients" / "typescript"
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], client, epoch)
    _run(["npm", "pack", "--pack-destination", str(folder)], client, epoch)
    (folder / f"hone-{version}-image-context.tar.gz").write_bytes(image_context(source, epoch))
    (folder / f"hone-{version}.cdx.json").write_bytes(bill_of_materials(source, epoch))
    sums = [f"{_sha256(it)}  {it.name}\n" for it in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(command: list[str], folder: Path, epoch: int | None = None) -> bytes:
    """Return what a program prints; raise ReleaseRefused with its errors if it fails."""
    environment: Mapping[str, str] = os.environ
    if epoch is not None:
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    try:
        done = subprocess.run(  # noqa: S603 - the commands of this file
            command, cwd=folder, env=environment, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ReleaseRefused(f"{command[0]} is not installed") from None
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(command)}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def release_commit(folder: Path) -> None:
    """Build the commit that is checked out into a folder, in place of what it had."""
    if _run(["git", "status", "--porcelain"], ROOT):
        raise ReleaseRefused("there are changes that are not committed")
    epoch = int(_run(["git", "log", "-1", "--format=%ct"], ROOT))
    with TemporaryDirectory(prefix="hone-release-") as directory:
        source, made = Path(directory) / "source", Path(directory) / "dist"
        made.mkdir()
        with tarfile.open(fileobj=BytesIO(_run(["git", "archive", "HEAD"], ROOT))) as files:
            files.extractall(source, filter="data")
        release(source, epoch, made)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)


def main() -> int:
    """Build a release and print its checksums; 1 if it was refused."""
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    try:
        release_commit(folder)
    except ReleaseRefused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write((folder / "SHA256SUMS").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
