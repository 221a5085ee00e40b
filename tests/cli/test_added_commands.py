"""Commands of installed packages: they join the others, or say what keeps them from it."""

import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from tests.installed_package import (
    HONE,
    ROOT,
    environment_with,
    install_package,
    link_packages,
)

pytestmark = pytest.mark.long

GREETING = '''
import typer

NUMBER = 42

def greet(name: str = "you", shout: bool = False) -> None:
    """Greet somebody."""
    typer.echo(f"Hello, {name}{'!' if shout else '.'}")
'''


def hone(*arguments: str, folders: tuple[Path, ...], options: str = "") -> CompletedProcess[str]:
    command = [HONE[0], *options.split(), *HONE[1:], *arguments]
    environment = environment_with(*folders)
    return run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def greeting(tmp_path: Path) -> Path:
    broken = {"broken": "greeting:missing", "number": "greeting:NUMBER", "submit": "greeting:greet"}
    points = {"hone.commands": {"greet": "greeting:greet", **broken}}
    install_package(tmp_path, "hone-greeting", points, greeting=GREETING)
    return tmp_path


def test_a_command_of_an_installed_package_is_one_of_hone(greeting: Path) -> None:
    assert "Greet somebody." in hone("--help", folders=(greeting,)).stdout
    greeted = hone("greet", "--name", "Ada", "--shout", folders=(greeting,))
    assert (greeted.returncode, greeted.stdout) == (0, "Hello, Ada!\n")
    assert hone("greet", "--number", "1", folders=(greeting,)).returncode == 2


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("broken = greeting:missing", "AttributeError"),
        ("number = greeting:NUMBER", "TypeError"),
        ("submit = greeting:greet", "choose another name: this one is taken"),
    ],
)
def test_a_command_that_cannot_be_loaded_says_of_which_package_it_is(
    command: str, why: str, greeting: Path
) -> None:
    failed = hone(command.split(maxsplit=1)[0], folders=(greeting,))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert f"hone-greeting (hone.commands: {command}): {why}" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_command_whose_extra_is_missing_says_how_to_install_it(tmp_path: Path) -> None:
    core = tmp_path / "core"
    link_packages(core, without=frozenset({"scipy", "numpy", "mcp", "mcp-types"}))
    here = (core, ROOT, ROOT / "extras", ROOT / "clients" / "python")
    assert "Let an assistant refine texts" in hone("--help", folders=here, options="-S").stdout
    compare = hone("compare", "--texts", "texts", folders=here, options="-S")
    mcp = hone("mcp", folders=here, options="-S")
    for failed, package in ((compare, "'scipy>="), (mcp, "'mcp>=")):
        assert (failed.returncode, failed.stdout) == (1, "")
        assert f"{sys.executable} -m pip install {package}" in failed.stderr
