"""Which model plays which role, and whether this server can call it."""

from collections.abc import Mapping
from typing import Literal, get_args

from app.contract.providers import PROVIDERS, Provider, provider_of
from app.contract.requests import ModelChoice, RefinementRequest
from app.settings import Settings

Role = Literal["generator", "critic"]
Choices = Mapping[str, ModelChoice]

ROLES: tuple[Role, ...] = get_args(Role)
PLAYING: Mapping[str, tuple[Role, ...]] = {
    "iterative": ("generator", "critic"),
    "critique": ("critic",),
    "self_correction": ("generator",),
    "best_of_n": ("generator", "critic"),
    "multi_pass": ("generator", "critic"),
    "stepwise": ("generator", "critic"),
    "nested": ("generator", "critic"),
    "plan_execute": ("generator", "critic"),
    "chain_of_verification": ("generator", "critic"),
}
"""The roles of each strategy: a model that plays none is never called."""

NEEDING_LANGUAGE: Mapping[str, str] = {
    "chain_of_verification": "asks and answers questions about what a text says",
    "plan_execute": "plans and carries out steps",
}
"""What the strategies do that only a language model can, whatever role it plays."""

KEYS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("openai_api_key", "OPENAI_API_KEY", "openai_base_url"),
    "anthropic": ("anthropic_api_key", "ANTHROPIC_API_KEY", "anthropic_base_url"),
}
"""By provider: the setting of its key, the variable to name, and the setting of its address."""

FORMS = {"offline": "offline:editor", "openai": "openai:NAME", "anthropic": "anthropic:NAME"}


class Casting:
    """The models that this server was given. Raises ValueError for a default it cannot call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.default = ModelChoice(model=settings.model)
        if reason := self.why_not(settings.model):
            raise ValueError(f"HONE_MODEL is {settings.model}, but {reason}")

    def choices(self, request: RefinementRequest) -> Choices:
        """Return the model of every role, whether the strategy has it or not."""
        return {role: self._choice(request, role) for role in ROLES}

    def why_not(self, model: str) -> str | None:
        """Return why a model cannot be called, and what to do about it; None when it can."""
        provider = provider_of(model, self._settings.providers)
        if provider is None:
            known = ", ".join([*FORMS.values(), *(f"{it}:NAME" for it in self._settings.providers)])
            return f"nobody serves {model[:100]!r} here; known are {known}"
        return self.missing(provider)

    def providers(self) -> tuple[Provider, ...]:
        """Return every provider that a request can name."""
        added = (
            provider_of(f"{name}:", self._settings.providers) for name in self._settings.providers
        )
        return (*(it for it in PROVIDERS if it.name in FORMS), *filter(None, added))

    def missing(self, provider: Provider) -> str | None:
        """Return what has to be set before a provider's models can be called."""
        if not provider.needs_key:
            return None
        key, variable, address = KEYS[provider.name]
        secret = getattr(self._settings, key)
        elsewhere = getattr(self._settings, address) != Settings.model_fields[address].default
        if elsewhere or (secret is not None and secret.get_secret_value()):
            return None
        return f"{provider.name} needs a key: set {variable} on the server"

    def _choice(self, request: RefinementRequest, role: Role) -> ModelChoice:
        choice = getattr(request.models, role) or self.default
        return choice if isinstance(choice, ModelChoice) else ModelChoice(model=choice)
