"""Settings: environment variables with the prefix HONE_, read once."""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.contract import patterns
from app.contract.access import TENANT_NAME, Scope
from app.contract.budget import DEFAULT_MAX_OUTPUT_TOKENS
from app.contract.endpoints import AllowedTargets
from app.contract.invalid_values import sentence_of
from app.contract.providers import PROVIDERS, Provider, provider_of

SERVER = "HONE_PROVIDER_{}_{}"
PROVIDER_VARIABLE = re.compile(r"^hone_provider_([a-z0-9_]+)_(base_url|api_key)$", re.IGNORECASE)
HOST_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
ORIGIN = re.compile(r"https?://([A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
MOST_PORT = 65_535
ARCHIVE = re.compile(r"(s3|gs|az)://[^/@?#]+(/[^?#]*)?|file:///[^?#]+")
KEY = re.compile(r"[ -~]*")
GRANT = re.compile(rf"(?P<group>[^=\s]+)=(?P<tenant>{TENANT_NAME.strip('^$')}):(?P<scopes>[a-z,]+)")
BUILT_IN = frozenset(provider.name for provider in PROVIDERS)

LONGEST_S = 86_400
MOST_KEPT_S = 10 * 365 * 86_400

COLLECT_AFTER = (50_000, 20, 100)
"""Thresholds of the garbage collector. Thousands of watchers and hundreds of refinements keep many
objects alive, few of which form cycles: as often as Python does by default, scanning them takes a
quarter of a busy worker's time."""


def _is_sendable(key: SecretStr) -> SecretStr:
    """Return a key without the white space around it, such as the line end of a file."""
    text = key.get_secret_value().strip()
    if not KEY.fullmatch(text):
        raise ValueError("the key has a character that no HTTP header can carry")
    return SecretStr(text)


ModelKey = Annotated[SecretStr, AfterValidator(_is_sendable)]


class ModelServer(BaseModel):
    """An OpenAI-compatible server: it implements the chat completions API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str = Field(
        pattern=patterns.BASE_URL.regex, description="Base URL without /chat/completions."
    )
    api_key: ModelKey | None = Field(None, description="API key, if the server requires one.")


def _is_free(name: str) -> str:
    if name in BUILT_IN:
        variable = f"HONE_PROVIDER_{name.upper()}_BASE_URL"
        raise ValueError(f"{name} is taken, by Hone or an installed package: rename {variable}")
    return name


ProviderName = Annotated[str, Field(pattern=patterns.PROVIDER_NAME.regex), AfterValidator(_is_free)]


def _is_long_enough(key: SecretStr) -> SecretStr:
    if 0 < len(key) < 16:
        raise ValueError("the secret key must have at least 16 characters")
    return key


SecretKey = Annotated[SecretStr, AfterValidator(_is_long_enough)]


def derived(secret: bytes, purpose: str) -> bytes:
    """Return a key of 32 bytes for one purpose (HKDF with SHA-256, RFC 5869, without a salt)."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, f"hone {purpose}\x01".encode(), "sha256")


def _is_readable(allowed: str) -> str:
    AllowedTargets.parse(allowed)
    return allowed


def _is_proxy(url: SecretStr) -> SecretStr:
    with suppress(ValueError):  # its message has a part of the password where a port should be
        parts = urlsplit(url.get_secret_value())
        is_named = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        if is_named and "@" not in parts.path:
            return url
    raise ValueError("is not of the form http://proxy.example:3128; a / in its password is %2F")


def _is_archive(url: str) -> str:
    if url and not ARCHIVE.fullmatch(url):
        raise ValueError("is not of the form s3://BUCKET/PREFIX, gs://, az:// or file:///DIRECTORY")
    return url


@dataclass(frozen=True, slots=True)
class Grant:
    """What a group of people may do: its scopes in a tenant. `*` is everybody who signs in."""

    group: str
    tenant: str
    scopes: tuple[Scope, ...]


def _granted(text: str) -> Iterator[Grant]:
    for word in text.split():
        found = GRANT.fullmatch(word)
        scopes = found["scopes"].split(",") if found else ()
        if found is None or not {*scopes} <= {*Scope}:
            raise ValueError(f"{word!r} is not of the form GROUP=TENANT:SCOPE,SCOPE")
        named = tuple(Scope(scope) for scope in scopes)
        yield Grant(unquote(found["group"]), found["tenant"], named)


def _are_grants(text: str) -> str:
    return text if [*_granted(text)] else ""


def _is_issuer(url: str) -> str:
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if url and not (parts.hostname and (parts.scheme == "https" or is_local)):
        raise ValueError("is not of the form https://login.example.com")
    return url


def _is_address(address: str) -> str:
    found = ADDRESS.fullmatch(address)
    if address and not (found and int(found["port"]) <= MOST_PORT):
        raise ValueError(f"{address!r} is no address: expected HOST:PORT, such as 127.0.0.1:9464")
    return address


def _are_host_names(names: str) -> str:
    for name in names.split():
        if not HOST_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no host name: expected hone.example.com, without a port")
    return names


def _are_origins(origins: str) -> str:
    for origin in origins.split():
        if not ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!r} is no origin: expected https://app.example.com")
    return origins


LIMITED = ("requests", "tokens", "input_tokens", "output_tokens", "in_flight")
"""What `HONE_LIMITS` can cap: calls, or tokens, a minute; and calls in flight."""

Caps = dict[str, dict[str, float]]


def _read_limits(value: Any) -> Any:
    """Return the caps in `openai:gpt-5-mini=requests:500,in_flight:50 anthropic:*=requests:50`.

    JSON, `{"anthropic:*": {"requests": 50}}`, is the form in which processes pass settings on.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return json.loads(value)
    caps: Caps = {}
    for entry in value.replace(";", " ").split():
        model, _, wanted = entry.partition("=")
        if not wanted:
            raise ValueError(f"{entry!r} is not of the form PROVIDER:MODEL=LIMIT:NUMBER,...")
        if model in caps:
            raise ValueError(f"{model} is limited twice")
        limits = [_read_limit(limit) for limit in wanted.split(",")]
        caps[model] = dict(limits)
        if len(caps[model]) < len(limits):
            raise ValueError(f"{model} has two limits of one kind")
    return caps


def limits_in_words(caps: Caps) -> str:
    """Return caps in the form of `HONE_LIMITS`."""
    return " ".join(
        f"{model}={','.join(f'{name}:{number:.0f}' for name, number in limits.items())}"
        for model, limits in caps.items()
    )


def _read_limit(text: str) -> tuple[str, float]:
    name, _, number = text.partition(":")
    if not re.fullmatch(r"\d{1,12}", number):
        raise ValueError(f"{text!r} is not of the form LIMIT:NUMBER")
    return name, float(number)


def _are_known(caps: Caps) -> Caps:
    for model, limits in caps.items():
        if not re.fullmatch(r"[a-z0-9_]+:.+", model):
            raise ValueError(f"{model!r} is no model: expected PROVIDER:MODEL or PROVIDER:*")
        for name, number in limits.items():
            if name not in LIMITED:
                raise ValueError(f"{name!r} is not a limit: the limits are {', '.join(LIMITED)}")
            if number < 1:
                raise ValueError(f"{name} of {model} must be at least 1")
    return caps


def _read_weights(value: Any) -> Any:
    """Return the weights in `acme=4 trial=0.5`; processes pass them on as JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return json.loads(value)
    weights: dict[str, float] = {}
    for entry in value.split():
        tenant, _, weight = entry.partition("=")
        if not re.fullmatch(TENANT_NAME, tenant) or not re.fullmatch(
            r"\d{1,9}(\.\d{1,9})?", weight
        ):
            raise ValueError(f"{entry!r} is not of the form TENANT=WEIGHT, such as acme=4")
        if tenant in weights:
            raise ValueError(f"{tenant} has two weights")
        weights[tenant] = float(weight)
    return weights


def weights_in_words(weights: dict[str, float]) -> str:
    """Return weights in the form of `HONE_TENANT_WEIGHTS`."""
    return " ".join(f"{tenant}={weight:g}" for tenant, weight in weights.items())


def _are_in_range(weights: dict[str, float]) -> dict[str, float]:
    for tenant, weight in weights.items():
        if not 0.01 <= weight <= 100:
            raise ValueError(f"the weight of {tenant} must be between 0.01 and 100")
    return weights


CLUSTER = "+cluster:"
"""In the scheme of a URL that names nodes of a cluster."""

CORES_BY_DEFAULT = 8


def usable_cores(root: Path = Path("/"), affine: int | None = None) -> int:
    """Return how many cores this process may use, rounded down: 1 to `CORES_BY_DEFAULT`.

    They are limited by its CPU affinity (`affine`) and by the quotas of its cgroup and of those
    above: `cpu.max` of version 2, `cpu.cfs_quota_us` of version 1 (cgroups(7)).
    """
    if affine is None:
        is_known = hasattr(os, "sched_getaffinity")
        affine = len(os.sched_getaffinity(0)) if is_known else os.cpu_count() or 1
    return max(1, min(CORES_BY_DEFAULT, affine, *map(int, _quotas(root))))


def _quotas(root: Path) -> Iterator[float]:
    groups = root / "proc" / "self" / "cgroup"
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, controllers, path = line.split(":", 2)
        if "cpu" not in (controllers or "cpu").split(","):
            continue
        mount = root / "sys" / "fs" / "cgroup" / ("cpu" if controllers else "")
        for group in (own := mount / path.lstrip("/"), *own.parents):
            for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
                with suppress(OSError):
                    quota, period = " ".join((group / file).read_text() for file in files).split()
                    if quota not in {"max", "-1"}:
                        yield int(quota) / int(period)
            if group == mount:
                break


Weights = Annotated[
    dict[str, float], NoDecode, BeforeValidator(_read_weights), AfterValidator(_are_in_range)
]
Limits = Annotated[Caps, NoDecode, BeforeValidator(_read_limits), AfterValidator(_are_known)]


class _ServerSettings(BaseSettings):
    """The sources of settings, and the settings that precede those of the providers."""

    model_config = SettingsConfigDict(
        env_prefix="HONE_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=MOST_PORT, description="Port the API listens on.")
    redis_url: str = Field(
        "",
        description="URL of the shared Redis: redis://, rediss:// or unix://, redis+sentinel://"
        "HOST,HOST/SERVICE or redis+cluster://HOST,HOST. Empty: `hone serve` starts an embedded"
        " one.",
    )
    cells: int = Field(
        1,
        ge=1,
        le=256,
        description="Number of cells over which Hone is spread; cell 0 is at HONE_REDIS_URL.",
    )
    cells_url: str = Field(
        "",
        validate_default=True,
        description="URLs of the cells from 1 on, with spaces between them; or one"
        " redis+cluster:// that has all of them. Empty: the cluster at HONE_REDIS_URL has them.",
    )
    cell: int | None = Field(
        None,
        ge=0,
        description="Number of the cell that the workers and the sender of a container serve."
        " Default: workers choose one that lacks workers, and a sender serves all.",
    )
    cell0_grace_s: float = Field(
        60,
        ge=5,
        le=600,
        description="Seconds for which workers of other cells go on without cell 0, which shares"
        " out the permits of models and the quotas of tenants.",
    )
    redis_timeout_s: float = Field(
        1.8,
        gt=0,
        le=3_600,
        description="Seconds that Redis has to answer the API; after them the API answers 503.",
    )
    data_dir: Path = Field(
        Path("~/.local/share/hone"), description="Data directory of the embedded Redis."
    )
    redis_replicas: int = Field(
        0,
        ge=0,
        description="Number of replicas that must have a submission before it is acknowledged.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Add the servers that variables name to the sources of pydantic-settings."""
        named = _NamedServers(settings_cls, dotenv_settings, env_settings)
        return init_settings, env_settings, dotenv_settings, file_secret_settings, named


def _provider_settings() -> dict[str, Any]:
    """Return the fields for address and key of every provider that is called over the network."""
    fields: dict[str, Any] = {}
    for provider in PROVIDERS:
        if provider.base_url is None:
            continue
        key, variable = provider.api_key_setting, provider.key_variable
        fields[provider.base_url_setting] = (
            str,
            Field(provider.base_url, pattern=patterns.BASE_URL.regex, description=provider.address),
        )
        fields[key] = (
            ModelKey | None,
            Field(
                None,
                validation_alias=AliasChoices(key, f"HONE_{variable}", variable),
                description=f"API key for `{provider.name}:NAME`.",
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
    """All settings; tests construct it with keyword arguments.

    Every provider that is called over the network adds two fields, `NAME_base_url` and
    `NAME_api_key`; `server_of` reads them.
    """

    providers: dict[ProviderName, ModelServer] = Field(
        {},
        description="Additional OpenAI-compatible servers, for `name:MODEL`. Each has two "
        "variables: HONE_PROVIDER_NAME_BASE_URL and HONE_PROVIDER_NAME_API_KEY.",
    )
    model: Annotated[str, Field(pattern=patterns.MODEL.regex)] = Field(
        "offline:editor", description="Default model of every role."
    )
    model_timeout_s: float = Field(
        120, gt=0, le=LONGEST_S, description="Timeout of one model call in seconds."
    )
    max_output_tokens: int = Field(
        DEFAULT_MAX_OUTPUT_TOKENS,
        ge=1,
        description="Maximum output tokens of a call to a model whose own maximum is unknown, "
        "unless a text was cut off.",
    )
    limits: Limits = Field(
        {},
        description="Caps on the calls that all workers together make, such as"
        " `openai:gpt-5-mini=requests:500,in_flight:50 anthropic:*=input_tokens:80000`:"
        " requests, tokens, input_tokens and output_tokens a minute, and calls in_flight. `*`:"
        " every model of the provider by itself. What a provider enforces is learnt anyway.",
    )
    workers: int = Field(
        default_factory=usable_cores,
        ge=1,
        le=64,
        description="Worker processes of `hone worker` and of `hone serve`, each for one core."
        " Default: as many cores as the process may use, 8 at most.",
    )
    concurrency: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Maximum number of refinements in progress in a container: divided among its"
        " HONE_WORKERS, at least 1 for each. Each takes about 0.13 MB.",
    )
    queue: Annotated[str, Field(pattern=patterns.QUEUE_NAME.regex)] = Field(
        "hone", description="Name of the RQ queue."
    )
    queue_max: int = Field(
        10_000,
        ge=1,
        description="Maximum number of waiting refinements. Those of priority `batch` do not count"
        " against others.",
    )
    tenant_weights: Weights = Field(
        {},
        description="Shares of tenants in the slots of workers while all are taken, such as"
        " `acme=4 trial=0.5`; 1 for those that are not listed.",
    )
    grace_s: float = Field(
        20, ge=0, le=LONGEST_S, description="Grace period after SIGTERM in seconds."
    )
    max_body_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        description="Maximum size of a request body, and of a line of a batch, in bytes; the body"
        " of a batch may have 32 times as many.",
    )
    allowed_hosts: Annotated[str, AfterValidator(_are_host_names)] = Field(
        "",
        description="Names by which clients reach the API, such as `hone.example.com"
        " *.corp.example`, beside those of loopback and, if it listens on another address, IP"
        " addresses. `*`: any name, if a proxy checks it.",
    )
    cors_origins: Annotated[str, AfterValidator(_are_origins)] = Field(
        "",
        description="Origins of web pages that may use the API from a browser, such as"
        " `https://app.example.com http://localhost:3000`.",
    )
    root_path: str = Field(
        "",
        pattern=patterns.ROOT_PATH.regex,
        max_length=200,
        description="Path under which a proxy publishes the API, such as `/hone`.",
    )
    lease_s: float = Field(
        5,
        ge=0.5,
        le=3_600,
        description="Lease in seconds: the time after which the refinements of a worker that does"
        " not respond are taken over.",
    )
    stall_s: float = Field(
        15,
        ge=1,
        le=3_600,
        description="Seconds that the event loop of a worker may stand still before the worker"
        " stops renewing its lease.",
    )
    retention_s: int = Field(
        86_400, ge=1, le=MOST_KEPT_S, description="Retention of an ended refinement in seconds."
    )
    retention_max_s: int = Field(
        30 * 86_400,
        ge=1,
        le=MOST_KEPT_S,
        description="Longest retention in seconds that a request may ask for; at least that of"
        " HONE_RETENTION_S is allowed.",
    )
    pack_after_s: float = Field(
        60,
        ge=0,
        le=MOST_KEPT_S,
        description="Seconds after the end of a refinement after which its record is packed, so"
        " that it takes a third of the memory.",
    )
    search: bool = Field(
        True,
        description="Whether texts of ended refinements get a signature, by which a search finds"
        " them among very many: about a twenty-fifth of the memory of their records.",
    )
    archive_url: Annotated[str, AfterValidator(_is_archive)] = Field(
        "",
        description="Object store to which ended refinements go: `s3://BUCKET/PREFIX`, `gs://`,"
        " `az://` or `file:///DIRECTORY`; its own variables have the credentials. Redis keeps what"
        " lists show. Requires the extra `archive`. Empty: none.",
    )
    archive_after_s: float = Field(
        3_600,
        ge=0,
        le=MOST_KEPT_S,
        description="Seconds after the end of a refinement after which it is archived.",
    )
    keep_prompts: bool = Field(
        True, description="Keep the text of every prompt with its refinement, for `/steps`."
    )
    metrics_address: Annotated[str, AfterValidator(_is_address)] = Field(
        "",
        description="Address on which a process serves Prometheus metrics, such as"
        " `127.0.0.1:9464`; `hone serve` gives the worker the next port and the sender the"
        " one after. Empty: none.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least grave events that are logged."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of the logs. auto: text on a terminal, else JSON lines."
    )
    auth: Literal["auto", "required", "off"] = Field(
        "auto",
        description="Whether clients need an API key. auto: from the first key on, and always if"
        " the API listens on another address than loopback; off: a proxy authenticates clients.",
    )
    api_key: SecretStr | None = Field(
        None, description="API key that the commands of `hone` send to the server."
    )
    secret_key: SecretKey | None = Field(
        None,
        description="Signs calls to `http` validators and tools and encrypts the secrets in"
        " requests, which require it, and protects stored API keys; without it a random secret in"
        " Redis does the latter.",
    )
    secret_key_old: SecretKey | None = Field(
        None,
        description="The HONE_SECRET_KEY before this one: still read and accepted, until `hone"
        " secrets rotate` says that it can go.",
    )
    oidc_issuer: Annotated[str, AfterValidator(_is_issuer)] = Field(
        "",
        description="OpenID provider at which people sign in to the console, exactly as it names"
        " itself: `https://login.example.com`. It knows `/console/oidc/callback` of this server."
        " Requires the extra `oidc`. Empty: they sign in with keys.",
    )
    oidc_client_id: str = Field("", description="Name of this server at the OpenID provider.")
    oidc_client_secret: SecretStr | None = Field(
        None, description="Secret of this server at the OpenID provider, if it has one."
    )
    oidc_groups: Annotated[str, AfterValidator(_are_grants)] = Field(
        "",
        description="What groups of people may do, such as"
        " `hone-admins=default:admin,submit,read,review editors=acme:submit,read,review`; `*` is"
        " everybody, `%20` a space. The first group that a person is in says the tenant.",
    )
    outbound_allow: Annotated[str, AfterValidator(_is_readable)] = Field(
        "",
        description="Hosts and networks that `http` validators, tools and webhooks may reach beside"
        " public ones, each with or without a port: `hooks.internal:8080 *.corp.example"
        " 10.2.0.0/16 127.0.0.1:9000`.",
    )
    egress_proxy: Annotated[SecretStr, AfterValidator(_is_proxy)] | None = Field(
        None,
        description="Proxy through which `http` validators, tools and webhooks reach public hosts:"
        " `http://proxy.example:3128`. It must refuse private addresses. Model calls use"
        " HTTPS_PROXY instead.",
    )
    python_tests: bool = Field(
        False,
        description="Run `python_cases` and `python_tests` validators in a sandbox; workers must"
        " not run as root.",
    )
    check_cpu_s: float = Field(
        600,
        gt=0,
        le=LONGEST_S,
        description="CPU seconds that the checks of one refinement may use together; drafts after"
        " that are not checked, and do not pass.",
    )

    @field_validator("model")
    @classmethod
    def _model_has_provider(cls, model: str, before: ValidationInfo) -> str:
        named = before.data.get("providers")
        if named is not None and provider_of(model, named) is None:
            offered = (provider.name for provider in PROVIDERS if provider.is_offered)
            known = ", ".join([*offered, *named])
            raise ValueError(f"there is no provider of {model!r}; the providers are {known}")
        return model

    @field_validator("limits")
    @classmethod
    def _limits_are_of_providers(cls, limits: Caps, before: ValidationInfo) -> Caps:
        for model in limits:
            if provider_of(model, before.data.get("providers", ())) is None:
                raise ValueError(f"there is no provider of {model!r}")
        return limits

    @field_validator("cells_url")
    @classmethod
    def _has_every_cell(cls, urls: str, before: ValidationInfo) -> str:
        cells, redis_url = before.data.get("cells", 1), before.data.get("redis_url", "")
        if cells > 1 and CLUSTER not in (urls or redis_url) and len(urls.split()) != cells - 1:
            raise ValueError(
                f"must have {cells - 1} URLs for HONE_CELLS={cells}, with spaces between them, or"
                " one of a cluster"
            )
        return urls

    @field_validator("cell")
    @classmethod
    def _is_a_cell(cls, number: int | None, before: ValidationInfo) -> int | None:
        cells = before.data.get("cells", 1)
        if number is not None and number >= cells:
            raise ValueError(f"the last cell is {cells - 1}")
        return number

    @property
    def _cell_urls(self) -> list[str]:
        return self.cells_url.split() or [self.redis_url]

    @property
    def without_cell0_s(self) -> float | None:
        """For how long a worker goes on without cell 0; None if it serves that cell."""
        return self.cell0_grace_s if self.cell else None

    def in_cell(self, number: int) -> Self:
        """Return the settings of what works in one cell, whose Redis is at `redis_url`."""
        url, urls = self.redis_url, self._cell_urls
        if number and CLUSTER in urls[0]:
            address, mark, query = urls[0].partition("?")
            url = f"{address.rstrip('/')}/{number}{mark}{query}"
        elif number:
            url = urls[number - 1]
        return self.model_copy(update={"redis_url": url, "cell": number})

    def server_of(self, provider: Provider) -> tuple[str, str]:
        """Return address and key of a provider that is called over the network.

        The key is empty if none is set.
        """
        if provider.name in self.providers:
            server = self.providers[provider.name]
            base_url, key = server.base_url, server.api_key
        else:
            base_url = getattr(self, provider.base_url_setting)
            key = getattr(self, provider.api_key_setting)
        return base_url, key.get_secret_value() if key else ""

    @property
    def longest_retention_s(self) -> int:
        """The longest retention that a request may ask for."""
        return max(self.retention_s, self.retention_max_s)

    @property
    def secret_keys(self) -> tuple[bytes, ...]:
        """The secret key, and the one before it if it is still accepted; empty without one."""
        if not self.secret_key:
            return ()
        given = (self.secret_key, self.secret_key_old)
        return tuple(key.get_secret_value().encode() for key in given if key)

    @property
    def oidc_grants(self) -> tuple[Grant, ...]:
        """What groups of people may do, those that are named first before the others."""
        return tuple(_granted(self.oidc_groups))

    def derived_keys(self, purpose: str) -> tuple[bytes, ...]:
        """Return the keys for one purpose, the newest first; none without a secret key."""
        return tuple(derived(secret, purpose) for secret in self.secret_keys)

    @property
    def most_held(self) -> int:
        """How many refinements a worker holds, those that only wait for slow replies included."""
        return 10 * self.concurrency

    def metrics_at(self, nth: int = 0) -> tuple[str, int]:
        """Return host and port of the metrics of the `nth` process; port 0: it serves none."""
        found = ADDRESS.fullmatch(self.metrics_address)
        return (found["host"].strip("[]"), int(found["port"]) + nth) if found else ("", 0)

    def caps_of(self, model: str) -> dict[str, float] | None:
        """Return the caps of a model, `provider:name`: its own, or those of the provider's `*`."""
        return self.limits.get(model) or self.limits.get(f"{model.partition(':')[0]}:*")

    def fingerprint_of(self, provider: Provider, own_key: str | None = None) -> str:
        """Return a keyed hash of address and key, which tells accounts apart.

        `own_key` is the key of a tenant, in place of that of the server.
        """
        secret = self.secret_key.get_secret_value() if self.secret_key else "hone"
        address, key = self.server_of(provider)
        identity = f"{address}\n{key if own_key is None else own_key}"
        return hmac.new(secret.encode(), identity.encode(), hashlib.sha256).hexdigest()[:16]

    def lacks_key(self, provider: Provider) -> bool:
        """Return whether the provider's own server requires a key and none is set."""
        return provider.needs_key and self.server_of(provider) == (provider.base_url, "")


class InvalidSettings(Exception):
    """Some variables have values that cannot be used; the message names each of them."""


def read_environment() -> Settings:
    """Return the settings that the environment and `.env` have; raise InvalidSettings."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = (f"{_variable_at(*flaw['loc'])}: {sentence_of(flaw)}" for flaw in error.errors())
        raise InvalidSettings("; ".join(wrong)) from None


def _variable_at(name: int | str, server: int | str = "", part: int | str = "") -> str:
    if name != "providers":
        return f"HONE_{name}".upper()
    return SERVER.format(server, part if part in ModelServer.model_fields else "...").upper()


@lru_cache
def listens_on_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _NamedServers(PydanticBaseSettingsSource):
    """Collects HONE_PROVIDER_NAME_... from several sources; the last wins. Empty means unset."""

    def __init__(
        self, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._variables: dict[str, str | None] = {}
        for source in sources:
            if isinstance(source, EnvSettingsSource):
                self._variables |= source.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return no value: variables do not map to single fields here."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        servers: dict[str, dict[str, str]] = {}
        for variable, value in self._variables.items():
            if value and (found := PROVIDER_VARIABLE.match(variable)):
                name, part = found[1].lower(), found[2].lower()
                servers.setdefault(name, {})[part] = value
        return {"providers": servers} if servers else {}
