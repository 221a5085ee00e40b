"""What a model is asked to do, as data. Prompts render it; the offline editor reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.contract.judgement import Critique, Finding
from app.contract.requests import ContextDocument, Criterion


@dataclass(frozen=True, slots=True)
class Task:
    """What the text must achieve, what it is judged on and what may be used."""

    instruction: str | None
    draft: str | None
    criteria: tuple[Criterion, ...]
    context: tuple[ContextDocument, ...] = ()
    has_validators: bool = False
    is_clients_draft: bool = True
    """False for a draft that an earlier part of the strategy made."""
    demanding: int = 0
    """How many validators have a say: all but those that only warn."""
    schemas: tuple[Mapping[str, Any] | bool, ...] = ()
    """JSON Schemas that the draft must satisfy."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a first draft."""

    task: Task


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge a draft, blind: no threshold, no earlier score, no iteration, no author."""

    task: Task
    draft: str


@dataclass(frozen=True, slots=True)
class Revise:
    """Revise a draft: what failed is named, what is good is to be kept."""

    task: Task
    draft: str
    failing: tuple[str, ...]
    critique: Critique
    findings: tuple[Finding, ...]


Brief = Write | Judge | Revise


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent to a language model. `schema` (JSON Schema) is set when JSON must come back."""

    name: str
    version: int
    system: str
    user: str
    schema: dict[str, object] | None = None
