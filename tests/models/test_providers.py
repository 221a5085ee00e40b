"""Every provider is declared once, and what its declaration promises is there."""

from pathlib import Path

import pytest

from app.contract.providers import PROVIDERS, Provider
from app.settings import Settings
from tests.models.calls import call
from workers.model_registry import ModelRegistry, open_models
from workers.models.remote import adapter_of

ROOT = Path(__file__).parents[2]
CALLED = [it for it in PROVIDERS if it.wire]


def servers(env_file: Path, **variables: str) -> list[tuple[str, str]]:
    """Return address and key of every provider, as settings read them."""
    env_file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    read = Settings(_env_file=env_file)
    return [read.server_of(it) for it in CALLED]


@pytest.mark.parametrize("key", ["{}_API_KEY", "HONE_{}_API_KEY"])
def test_the_variables_of_a_provider_are_made_of_its_name(key: str, tmp_path: Path) -> None:
    names = [it.name.upper() for it in CALLED]
    addresses = {f"HONE_{name}_BASE_URL": f"http://{name}.example" for name in names}
    keys = {key.format(name): f"key-of-{name}" for name in names}
    expected = [(f"http://{name}.example", f"key-of-{name}") for name in names]
    assert servers(tmp_path / "env") == [(it.base_url, "") for it in CALLED]
    assert servers(tmp_path / "env", **addresses, **keys) == expected


@pytest.mark.parametrize("provider", CALLED)
def test_every_wire_format_has_an_adapter(provider: Provider) -> None:
    adapter = adapter_of(str(provider.wire))(str(provider.base_url), "key")
    assert adapter.request(call(), frozenset()).url.startswith(str(provider.base_url))


def test_every_adapter_is_the_wire_format_of_a_provider() -> None:
    folder = ROOT / "workers" / "models"
    adapters = {path.stem for path in folder.glob("*.py") if "\nADAPTER" in path.read_text()}
    assert adapters == {it.wire for it in CALLED}


async def test_an_offered_provider_without_a_wire_format_runs_in_the_worker() -> None:
    async with open_models(Settings(_env_file=None)) as models:
        assert isinstance(models, ModelRegistry)
        for provider in PROVIDERS:
            if provider.wire is None and provider.is_offered:
                assert models.get(f"{provider.name}:{provider.models[0]}")


@pytest.mark.parametrize("provider", [it for it in PROVIDERS if it.is_offered])
def test_the_page_on_models_names_every_provider_that_is_offered(provider: Provider) -> None:
    page = (ROOT / "docs" / "models.md").read_text()
    assert f"`{provider.name}:" in page
    assert not provider.needs_key or provider.key_variable in page


def test_a_provider_with_a_server_states_whether_it_requires_a_key() -> None:
    with pytest.raises(ValueError, match="acme must state needs_key"):
        Provider(name="acme", wire="openai", base_url="https://api.acme.example/v1")
