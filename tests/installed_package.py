"""Packages as pip would install them into a folder, and the folder of a core without extras."""

import os
import sys
import sysconfig
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def install_package(
    folder: Path, name: str, points: Mapping[str, Mapping[str, str]], **modules: str
) -> None:
    """Put modules into a folder, and the metadata of a package with these entry points."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)


def link_packages(folder: Path, *, without: frozenset[str]) -> None:
    """Link what is installed here into a folder, but not some packages."""
    folder.mkdir()
    hidden = {
        path.parts[0]
        for it in distributions()
        if canonicalize_name(it.name) in without
        for path in it.files or ()
    }
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name not in hidden:
            (folder / path.name).symlink_to(path)


def environment_with(*folders: Path) -> dict[str, str]:
    """Return the environment of a Python that finds packages in these folders first."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith("HONE_")}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "200"}


HONE = [sys.executable, "-c", "from app.cli import main; main()"]
