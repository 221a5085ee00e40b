"""What is shipped, and what it is pinned to."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from app.settings import Settings

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = [it for it in PROJECT["project"]["dependencies"] if not it.startswith("hone-client")]
EXTRAS = [*chain.from_iterable(PROJECT["project"]["optional-dependencies"].values())]
LOCKS = {
    "requirements.lock": NEEDED,
    "requirements-extras.lock": [*NEEDED, *EXTRAS],
    "requirements-build.lock": PROJECT["dependency-groups"]["build"],
    "requirements-dev.lock": [
        *NEEDED,
        *EXTRAS,
        *(r for r in PROJECT["dependency-groups"]["dev"] if isinstance(r, str)),
    ],
}
PACKAGES = {"app": ROOT, "workers": ROOT, "hone_extras": ROOT / "extras"}

# Packages that a dependency loads where it finds them; each loads in some 20 ms or less.
HARMLESS = {"greenlet", "psutil", "python-multipart"}
LOADED = """
import sys
before = set(sys.modules)
import app.cli.root, app.main, workers.__main__
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def pins(lock: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_a_version_of_every_dependency_that_is_allowed(lock: str) -> None:
    wanted = [Requirement(dependency) for dependency in LOCKS[lock]]
    pinned = pins(lock)
    missing = [
        str(requirement)
        for requirement in wanted
        if not requirement.specifier.contains(pinned.get(canonicalize_name(requirement.name), "0"))
    ]
    assert missing == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_index_and_no_path(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert re.findall(r"(?m)://|^-|file:|(?:^|\s)/\w+", text) == []


def test_the_locks_agree() -> None:
    everything = pins("requirements-dev.lock")
    for lock in LOCKS:
        assert pins(lock).items() <= everything.items()


@pytest.mark.long
def test_the_service_loads_nothing_that_only_its_checks_install() -> None:
    command = [sys.executable, "-c", LOADED]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    owners = packages_distributions()
    distributions = {canonicalize_name(name) for it in loaded for name in owners.get(it, ())}
    shipped = {"hone", "hone-client", *pins("requirements-extras.lock")}
    assert distributions - shipped <= HARMLESS, "`make clean install` removes what is left over"


@pytest.mark.parametrize("package", EXTRAS)
def test_the_core_is_installed_without_what_extras_need(package: str) -> None:
    assert canonicalize_name(Requirement(package).name) not in pins("requirements.lock")


def test_no_target_hands_on_that_modules_are_to_be_compiled_again_by_every_process() -> None:
    printed = subprocess.run(
        ["make", "-f", "-", "printed"],
        input="include Makefile\nprinted:; @env",
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "PATH=" in printed
    assert "PYTHONDONTWRITEBYTECODE" not in printed


def test_the_wheel_holds_its_packages_and_nothing_else(tmp_path: Path) -> None:
    with ZipFile(next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path)))) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(folder))
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    sources = {name for name in expected if name.startswith("app/console/") and is_source(name)}
    assert shipped == expected - sources


def is_source(name: str) -> bool:
    """Whether a file of the console serves to build what is shipped."""
    return re.match(r"app/console/(src|node_modules)/|.*\.(json|mjs)$", name) is not None


def variable(name: str, field: FieldInfo) -> str:
    if isinstance(field.validation_alias, AliasChoices):
        return str(field.validation_alias.choices[-1])
    return f"HONE_{name.upper()}"


def variables() -> set[str]:
    """Every setting that has one variable; `providers` has a pair for each server."""
    fields = Settings.model_fields.items()
    return {variable(name, field) for name, field in fields if name != "providers"}


def test_no_page_installs_a_package_of_the_same_name_from_a_registry() -> None:
    folders = ("docs", "examples", "clients/python", "deploy")
    pages = [*ROOT.glob("*.md"), *(it for name in folders for it in (ROOT / name).rglob("*.md"))]
    installing = re.compile(
        r"(?:pip|pipx|uvx?|npm|npx) (?:install |add |i )?(?:-\S+ )*['\"]?hone\b(?!-)"
    )
    found = [f"{page}: {it[0]}" for page in pages for it in installing.finditer(page.read_text())]
    assert found == []


def test_the_example_of_an_env_file_names_every_setting() -> None:
    named = re.findall(r"(?m)^# (\w+)=", (ROOT / ".env.example").read_text())
    providers = {name for name in named if name.startswith("HONE_PROVIDER_")}
    assert providers
    assert set(named) - providers == variables()
