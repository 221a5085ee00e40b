"""The arrows of the design, and proof that each of them bites.

The arrows stand in pyproject.toml as import-linter contracts; `make check` runs the same ones.
"""

import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from grimp import ImportGraph, build_graph
from importlinter import Contract
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

ROOT = Path(__file__).parent.parent
CONFIGURATION = read_configuration(str(ROOT / "pyproject.toml"))
CONTRACTS: dict[str, dict[str, Any]] = {c["id"]: c for c in CONFIGURATION["contracts_options"]}
TYPES: dict[str, type[Contract]] = {
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
    "protected": ProtectedContract,
}

CROSSINGS = [
    ("app-without-workers", "app.service", "workers.play.driver"),
    ("app-without-workers", "app.cli", "workers"),
    ("core-without-extras", "app.cli.root", "hone_extras.compare.command"),
    ("core-without-extras", "workers.play.driver", "hone_extras"),
    ("extras", "hone_extras.mcp.command", "hone_extras.compare.comparison"),
    ("extras", "hone_extras.compare.comparison", "workers.engine.moves"),
    ("workers", "workers.play.driver", "app.service"),
    ("workers", "workers.models.port", "app.main"),
    ("engine", "workers.engine.moves", "app.settings"),
    ("engine", "workers.engine.moves", "workers.models.port"),
    ("rooms", "workers.models.remote", "workers.validators"),
    ("rooms", "workers.validators.text", "workers.editor"),
    ("rooms", "workers.play.driver", "workers.rq"),
    ("rooms", "workers.outbound.transport", "workers.models.port"),
    ("pure", "workers.engine.moves", "asyncio"),
    ("pure", "workers.engine.moves", "random"),
    ("pure", "workers.engine.moves", "redis"),
    ("pure", "app.contract.status", "os"),
    ("clockless", "workers.engine.moves", "datetime"),
    ("contract", "app.contract.status", "app.settings"),
    ("store", "app.store.worker", "app.queue"),
    ("store-redis", "app.store.redis.codec", "app.store.worker"),
    ("engine-replies", "workers.engine.replies.texts", "workers.engine.judging"),
    ("layers", "app.service", "app.main"),
    ("layers", "app.store.worker", "app.service"),
    ("layers", "app.settings", "app.store"),
    ("routes", "app.api.routes", "redis"),
    ("rq", "app.service", "rq"),
    ("web", "app.service", "fastapi"),
    ("web", "workers.play.driver", "starlette"),
]

THIRD_PARTY = {
    "app.contract": {
        "pydantic",
        "pydantic_core",
        "re2",
        "jsonschema",
        "referencing",
        "markdown_it",
    },
    "workers.engine": {"pydantic"},
}


@cache
def imports() -> ImportGraph:
    return build_graph(
        "app", "workers", "hone_extras", include_external_packages=True, cache_dir=None
    )


def is_kept(contract_id: str, graph: ImportGraph) -> bool:
    options = CONTRACTS[contract_id]
    contract = TYPES[options["type"]](options["name"], CONFIGURATION["session_options"], options)
    return contract.check(deepcopy(graph), verbose=False).kept


def strangers(package: str, graph: ImportGraph) -> set[str]:
    """Third-party packages that `package` imports and that it was not given."""
    modules = graph.find_descendants(package) | {package}
    imported = {name for m in modules for name in graph.find_modules_directly_imported_by(m)}
    tops = {name.partition(".")[0] for name in imported}
    return tops - set(sys.stdlib_module_names) - {"app", "workers"} - THIRD_PARTY[package]


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_every_arrow_of_the_design_is_kept(contract_id: str) -> None:
    assert is_kept(contract_id, imports()), CONTRACTS[contract_id]["name"]


@pytest.mark.parametrize(("contract_id", "importer", "imported"), CROSSINGS)
def test_an_import_against_an_arrow_is_noticed(
    contract_id: str, importer: str, imported: str
) -> None:
    crossed = deepcopy(imports())
    crossed.add_import(importer=importer, imported=imported)
    assert not is_kept(contract_id, crossed)


def test_every_arrow_has_a_crossing_that_is_noticed() -> None:
    assert {contract_id for contract_id, _, _ in CROSSINGS} == set(CONTRACTS)


@pytest.mark.parametrize("package", THIRD_PARTY)
def test_what_is_pure_depends_on_what_it_was_given_only(package: str) -> None:
    assert strangers(package, imports()) == set()


def test_a_new_dependency_of_the_engine_is_noticed() -> None:
    crossed = deepcopy(imports())
    crossed.add_import(importer="workers.engine.moves", imported="numpy")
    assert strangers("workers.engine", crossed) == {"numpy"}
