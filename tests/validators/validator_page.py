"""docs/validators.md as data: a section for each kind, with an example and a draft that fails."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "validators.md"
HEADING = re.compile(r"(?m)^## (\w+)\n")
JSON = re.compile(r"```json\n(.*?)```", re.DOTALL)
TEXT = re.compile(r"```text\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True)
class Section:
    """What the page says about one kind."""

    text: str
    example: dict[str, Any]
    failing: str


def introduction() -> dict[str, Any]:
    """Return the request that the page begins with."""
    request: dict[str, Any] = json.loads(JSON.findall(HEADING.split(PAGE.read_text())[0])[0])
    return request


def sections() -> dict[str, Section]:
    """Return the sections by kind, in their order."""
    _, *parts = HEADING.split(PAGE.read_text())
    return {kind: _section(text) for kind, text in zip(parts[::2], parts[1::2], strict=True)}


def _section(text: str) -> Section:
    (example,), (failing,) = JSON.findall(text), TEXT.findall(text)
    return Section(text, json.loads(example), failing)
