"""Settings as environment variables: for another process to read, and for a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from app.settings import ModelServer, Settings

SERVER = "HONE_PROVIDER_{}_{}"


def environment_of(settings: Settings) -> Mapping[str, str]:
    """The variables from which another process reads the same settings, secrets included."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in variables_of(settings)
        if value is not None
    }


def variables_of(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Every variable with its value; None where it is not set."""
    for name in Settings.model_fields:
        if name == "providers":
            yield from servers_of(settings.providers)
        else:
            yield f"HONE_{name.upper()}", getattr(settings, name)


def servers_of(servers: Mapping[str, ModelServer]) -> Iterator[tuple[str, str | SecretStr | None]]:
    """The pair of variables that names each server."""
    for name, server in servers.items():
        yield SERVER.format(name.upper(), "BASE_URL"), server.base_url
        yield SERVER.format(name.upper(), "API_KEY"), server.api_key
