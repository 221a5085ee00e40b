"""Every kind is declared once, and what its declaration promises is there."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from app.contract.validators import RESOURCES, VALIDATORS
from app.settings import Settings
from workers.validators import check_of
from workers.validators.running import ServerResources

CHECK = re.compile(r"(?m)^(?:async )?def check_(\w+)\(")
PACKAGE = Path(__file__).parents[2] / "workers" / "validators"


@pytest.mark.parametrize("kind", VALIDATORS)
def test_a_function_of_its_name_checks_it(kind: str) -> None:
    assert check_of(VALIDATORS[kind].family(), kind).__name__ == f"check_{kind}"


def test_every_check_belongs_to_a_kind_that_is_declared() -> None:
    modules = [path for path in PACKAGE.glob("*.py") if path.stem != "__init__"]
    checks = {(path.stem, kind) for path in modules for kind in CHECK.findall(path.read_text())}
    assert checks == {(it.family(), kind) for kind, it in VALIDATORS.items()}


def test_a_worker_opens_every_resource_that_a_setting_switches_on() -> None:
    opened = [it.name for it in fields(ServerResources) if it.name != "check_cpu_s"]
    assert [it.name for it in RESOURCES] == opened
    for resource in RESOURCES:
        assert resource.setting in Settings.model_fields
        assert f"HONE_{resource.setting.upper()}" in resource.missing


def test_every_resource_that_a_kind_needs_is_one_that_servers_can_have() -> None:
    assert {it.needs for it in VALIDATORS.values() if it.needs} <= set(RESOURCES)
