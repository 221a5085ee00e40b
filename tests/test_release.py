"""What a release consists of (deploy/release.py)."""

import importlib.util
import json
import tarfile
from io import BytesIO
from pathlib import Path
from types import ModuleType

import pytest
from packaging.utils import canonicalize_name

from tests.test_packaging import pins

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
EPOCH = 1_790_000_000


@pytest.fixture(scope="module")
def built() -> ModuleType:
    """The script, which stands in no package."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "deploy" / "release.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_server_and_clients_have_one_version(built: ModuleType) -> None:
    assert len(set(built.versions(ROOT).values())) == 1


def test_the_image_context_has_what_the_dockerfile_copies_and_is_the_same_twice(
    built: ModuleType,
) -> None:
    made = built.image_context(ROOT, EPOCH)
    assert built.image_context(ROOT, EPOCH) == made
    with tarfile.open(fileobj=BytesIO(made)) as archive:
        names = archive.getnames()
        assert {it.mtime for it in archive.getmembers()} == {EPOCH}
    dockerfile = (ROOT / "Dockerfile").read_text().splitlines()
    lines = [line.split()[1:-1] for line in dockerfile if line.startswith("COPY ")]
    copied = {it for line in lines for it in line if not it.startswith(("--", "/"))}
    assert [it for it in copied if not any(f"{name}/".startswith(f"{it}/") for name in names)] == []
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_the_bill_of_materials_lists_what_the_lock_pins(built: ModuleType) -> None:
    made = built.bill_of_materials(ROOT, EPOCH)
    assert built.bill_of_materials(ROOT, EPOCH) == made
    bill = json.loads(made)
    found = {canonicalize_name(it["name"]): it["version"] for it in bill["components"]}
    assert found == pins("requirements-extras.lock")
    assert bill["metadata"]["component"]["name"] == "hone"
    assert str(ROOT) not in made.decode()
