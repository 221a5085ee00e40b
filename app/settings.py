"""Settings: environment variables with the prefix HONE_, read once."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.contract.providers import PROVIDERS, Provider

PROVIDER_VARIABLE = re.compile(r"^hone_provider_([a-z0-9_]+)_(base_url|api_key)$", re.IGNORECASE)
BUILT_IN = frozenset(provider.name for provider in PROVIDERS)


class ModelServer(BaseModel):
    """A server that speaks OpenAI's chat completions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str = Field(pattern=r"^https?://", description="Up to and without /chat/completions.")
    api_key: SecretStr | None = Field(None, description="Its key, if it wants one.")


def _is_free(name: str) -> str:
    if name in BUILT_IN:
        raise ValueError(f"{name} is a provider of its own: choose another name")
    return name


ProviderName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$"), AfterValidator(_is_free)]


def _is_long_enough(key: SecretStr) -> SecretStr:
    if 0 < len(key) < 16:
        raise ValueError("a secret key has at least 16 characters")
    return key


SecretKey = Annotated[SecretStr, AfterValidator(_is_long_enough)]


class _ServerSettings(BaseSettings):
    """How settings are read, and those that come before the ones of providers."""

    model_config = SettingsConfigDict(
        env_prefix="HONE_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65_535, description="Port the API listens on.")
    redis_url: str = Field("", description="The shared Redis; empty: `hone serve` starts its own.")
    redis_timeout_s: float = Field(
        1.8, gt=0, description="Seconds the API waits for Redis before it answers 503."
    )
    data_dir: Path = Field(
        Path("~/.local/share/hone"), description="Where the embedded Redis keeps its AOF."
    )
    model: str = Field("offline:editor", description="The model of every role that names none.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Add the servers that variables name to the sources pydantic-settings knows."""
        named = _NamedServers(settings_cls, dotenv_settings, env_settings)
        return init_settings, env_settings, dotenv_settings, file_secret_settings, named


def _provider_settings() -> dict[str, Any]:
    """Return address and key of every provider that is called over the network."""
    fields: dict[str, Any] = {}
    for provider in PROVIDERS:
        if provider.base_url is None:
            continue
        key, variable = provider.api_key_setting, provider.key_variable
        fields[provider.base_url_setting] = (
            str,
            Field(provider.base_url, description=provider.address),
        )
        fields[key] = (
            SecretStr | None,
            Field(
                None,
                validation_alias=AliasChoices(key, f"HONE_{variable}", variable),
                description="Its key.",
            ),
        )
    return fields


if TYPE_CHECKING:

    class _WithProviders(_ServerSettings): ...

else:
    _WithProviders = create_model(
        "_WithProviders", __base__=_ServerSettings, **_provider_settings()
    )


class Settings(_WithProviders):
    """Everything that can be set; construct it with keywords in tests.

    Every provider that is called over the network has two fields more, `NAME_base_url` and
    `NAME_api_key`; `server_of` reads them.
    """

    providers: dict[ProviderName, ModelServer] = Field(
        {},
        description="More OpenAI-compatible servers, for `name:MODEL`, each named by a pair of "
        "variables: HONE_PROVIDER_NAME_BASE_URL and HONE_PROVIDER_NAME_API_KEY.",
    )
    model_timeout_s: float = Field(120, gt=0, description="Seconds one model call may take.")
    max_reply_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Bytes of one model reply.")
    concurrency: int = Field(200, ge=1, le=10_000, description="Refinements in flight per worker.")
    queue: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = Field(
        "hone", description="Name of the RQ queue."
    )
    queue_max: int = Field(10_000, ge=1, description="Refinements waiting at most.")
    grace_s: float = Field(20, ge=0, description="Seconds to leave in after SIGTERM.")
    max_body_bytes: int = Field(2 * 1024 * 1024, ge=1024, description="Bytes of a request body.")
    lease_s: float = Field(
        5,
        ge=0.5,
        description="Seconds after which a silent worker's refinements are taken over.",
    )
    retention_s: int = Field(86_400, ge=1, description="Seconds an ended refinement is kept.")
    secret_key: SecretKey | None = Field(
        None, description="Signs calls to validators and tools; needed only with them."
    )
    python_tests: bool = Field(
        False, description="Run `python_tests` validators, in a sandbox; not as root."
    )

    def server_of(self, provider: Provider) -> tuple[str, str]:
        """Return the address of a provider that has one, and the key, empty without."""
        if provider.name in self.providers:
            server = self.providers[provider.name]
            base_url, key = server.base_url, server.api_key
        else:
            base_url = getattr(self, provider.base_url_setting)
            key = getattr(self, provider.api_key_setting)
        return base_url, key.get_secret_value() if key else ""

    def lacks_key(self, provider: Provider) -> bool:
        """Tell whether a provider's own server would be called without the key it needs."""
        return provider.needs_key and self.server_of(provider) == (provider.base_url, "")


class _NamedServers(PydanticBaseSettingsSource):
    """Gathers HONE_PROVIDER_NAME_... from several sources; a later one wins. Empty is unset."""

    def __init__(
        self, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._variables: dict[str, str | None] = {}
        for source in sources:
            if isinstance(source, EnvSettingsSource):
                self._variables |= source.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return nothing: no variable stands for a single field."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        servers: dict[str, dict[str, str]] = {}
        for variable, value in self._variables.items():
            if value and (found := PROVIDER_VARIABLE.match(variable)):
                name, part = found[1].lower(), found[2].lower()
                servers.setdefault(name, {})[part] = value
        return {"providers": servers} if servers else {}
