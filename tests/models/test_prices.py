import pytest

from app.contract.providers import PROVIDERS, cost_usd, price_list, price_of, provider_of

PRICES = price_list()


@pytest.mark.parametrize("model", PRICES.models)
def test_every_price_has_a_source_and_belongs_to_a_provider_whose_calls_cost(model: str) -> None:
    provider = provider_of(model)
    assert provider
    assert provider.costs
    assert PRICES.sources[PRICES.models[model].source].startswith("https://")


def test_every_source_is_used() -> None:
    named = {name for it in PRICES.models.values() for name in (it.source, it.cache_source) if name}
    assert named == PRICES.sources.keys()


def test_an_unknown_price_is_none_and_never_zero() -> None:
    assert price_of("openai:gpt-unheard-of") is None
    assert cost_usd("openai:gpt-unheard-of", 1_000, 1_000) is None
    assert cost_usd("local:llama", 1_000, 1_000) is None


@pytest.mark.parametrize("model", ["offline:editor", "scripted:anything"])
def test_what_asks_no_model_costs_nothing(model: str) -> None:
    assert cost_usd(model, 1_000, 1_000) == 0.0


def test_a_cost_counts_input_and_output_per_million() -> None:
    assert cost_usd("openai:gpt-5-mini", 1_000_000, 500_000) == pytest.approx(0.25 + 1.0)


def test_a_snapshot_costs_what_its_model_costs() -> None:
    assert price_of("anthropic:claude-haiku-4-5-20251001") == price_of("anthropic:claude-haiku-4-5")
    assert price_of("openai:gpt-5-mini-2025-08-07") == price_of("openai:gpt-5-mini")


def test_a_long_input_falls_into_a_dearer_band_or_an_unknown_one() -> None:
    assert cost_usd("openai:gpt-6-luna", 272_000, 0) == pytest.approx(0.0272)
    assert cost_usd("openai:gpt-6-luna", 272_001, 0) == pytest.approx(0.0544, rel=1e-4)
    assert cost_usd("anthropic:claude-haiku-5-5", 100_001, 0) is None


def test_a_server_that_settings_name_speaks_openais_format_and_wants_no_key() -> None:
    provider = provider_of("local:llama", named={"local"})
    assert provider
    assert (provider.name, provider.wire, provider.needs_key) == ("local", "openai", False)
    assert provider_of("local:llama") is None


def test_the_editor_is_the_only_model_without_a_network_and_does_not_write() -> None:
    editor = provider_of("offline:editor")
    assert editor
    assert (editor.wire, editor.writes) == (None, False)
    others = [it for it in PROVIDERS if it != editor and it.is_offered]
    assert all(it.wire and it.writes for it in others)
    assert provider_of("offline:writer") is None
