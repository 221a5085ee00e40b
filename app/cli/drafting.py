"""The request that `hone submit` makes of its arguments."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import typer

from app.contract.criteria import AUTO


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line; None is not asked for."""

    task: str | None = None
    criteria: Sequence[str] = ()
    threshold: float | None = None
    max_iterations: int | None = None
    model: str | None = None
    strategy: str | None = None
    review: str | None = None


def request_of(draft: str | None, wishes: Wishes, started_from: dict[str, Any]) -> dict[str, Any]:
    """Return the body to submit: `started_from` with everything replaced that was asked for.

    The server says what is wrong with it.
    """
    given = wished(wishes) | ({} if draft is None else {"draft": draft})
    if not (started_from | given).keys() & {"draft", "task"}:
        raise typer.BadParameter("give a FILE, a --task, or a --json with one of them")
    return started_from | given


def wished(wishes: Wishes) -> dict[str, Any]:
    """Return what was asked for as the fields of a body."""
    asked: dict[str, Any] = {
        "task": wishes.task,
        "threshold": wishes.threshold,
        "max_iterations": wishes.max_iterations,
        "criteria": _criteria(wishes.criteria) or None,
        "models": {"generator": wishes.model, "critic": wishes.model} if wishes.model else None,
        "strategy": {"kind": wishes.strategy} if wishes.strategy else None,
        "review": {"when": wishes.review} if wishes.review else None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def read_text(path: Path, stdin: IO[bytes]) -> str:
    """Return the text of a file, or of `stdin` for `-`; BadParameter if it cannot be read."""
    try:
        return (stdin.read() if path == Path("-") else path.read_bytes()).decode()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not UTF-8 text") from None


def read_request(path: Path, stdin: IO[bytes]) -> dict[str, Any]:
    """Return the JSON object in a file; BadParameter if there is none."""
    try:
        request = json.loads(read_text(path, stdin))
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise typer.BadParameter(f"{path} holds no JSON object")
    return request


def _criteria(texts: Sequence[str]) -> str | list[dict[str, str]]:
    return AUTO if list(texts) == [AUTO] else [_criterion(text) for text in texts]


def _criterion(text: str) -> dict[str, str]:
    name, separator, description = text.partition("=")
    return {"name": name, "description": description} if separator else {"name": name}
