"""The pages on providers show settings that this server takes, for a model that it can call."""

import re
from pathlib import Path

import pytest

from app.contract.providers import provider_of
from app.contract.requests import RefinementRequest
from app.settings import PROVIDER_VARIABLE, Settings
from tests.test_packaging import variables

FOLDER = Path(__file__).parent.parent / "docs" / "providers"
PAGES = sorted(it.stem for it in FOLDER.glob("*.md") if it.stem != "index")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    text = (FOLDER / f"{page}.md").read_text()
    return [code for found, code in BLOCK.findall(text) if found == language]


def settings_of(block: str, folder: Path) -> Settings:
    """The settings that a file `.env` with these lines makes."""
    path = folder / ".env"
    path.write_text(block)
    return Settings(_env_file=path)


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_of_a_page_are_enough_to_call_its_model(page: str, tmp_path: Path) -> None:
    shown = blocks(page, "env")
    assert shown
    for block in shown:
        names = re.findall(r"^(\w+)=", block, re.MULTILINE)
        assert [
            it for it in names if it not in variables() and not PROVIDER_VARIABLE.match(it)
        ] == []
        settings = settings_of(block, tmp_path)
        provider = provider_of(settings.model, settings.providers)
        assert provider is not None
        assert not settings.lacks_key(provider)
        assert [it for it in settings.limits if not it.startswith(f"{provider.name}:")] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_call_that_shows_that_it_works_is_the_one_that_hone_makes(
    page: str, tmp_path: Path
) -> None:
    settings = settings_of(blocks(page, "env")[0], tmp_path)
    provider = provider_of(settings.model, settings.providers)
    assert provider is not None
    address, _ = settings.server_of(provider)
    paths = {"openai": "/chat/completions", "anthropic": "/v1/messages"}
    [call] = [it for it in blocks(page, "sh") if it.startswith("curl ")]
    assert call.split()[1] == f"{address}{paths[provider.wire or '']}"
    assert f'"model": "{settings.model.partition(":")[2]}"' in call


@pytest.mark.parametrize("page", PAGES)
def test_the_request_of_a_page_is_accepted(page: str) -> None:
    [request] = blocks(page, "json")
    assert RefinementRequest.model_validate_json(request, strict=True).models.generator


def test_every_page_is_listed_and_says_what_to_do_when_it_does_not_work() -> None:
    listed = (FOLDER / "index.md").read_text()
    assert [it for it in PAGES if f"({it}.md)" not in listed] == []
    pages = {it: (FOLDER / f"{it}.md").read_text() for it in PAGES}
    parts = ("| what you see |", "- *Limits*", "*Thinking*", "*Cached input*", "*Prices*")
    missing = [(it, part) for it, text in pages.items() for part in parts if part not in text]
    assert missing == []
