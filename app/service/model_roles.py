"""Which model plays which role, and whether this server can call it."""

from collections.abc import Mapping
from typing import Literal, get_args

from app.contract.criteria import AUTO
from app.contract.providers import PROVIDERS, Provider, added, provider_of
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
    "self_consistency": ("generator", "critic"),
    "reasoning_revision": ("generator", "critic"),
}
"""The roles of each strategy: a model that plays none is never called."""

JUDGING_ALONE = {
    "iterative",
    "critique",
    "best_of_n",
    "multi_pass",
    "stepwise",
    "nested",
    "plan_execute",
}
"""Strategies that ask a critic for nothing but a judgement: a panel takes its place."""

NEEDING_LANGUAGE: Mapping[str, str] = {
    "chain_of_verification": "asks and answers questions about what a text says",
    "reasoning_revision": "reasons in steps and finds the faulty one",
    "self_consistency": "answers a task several times and compares the answers",
    "plan_execute": "plans and carries out steps",
}
"""What the strategies do that only a language model can, whatever role it plays."""


class ModelRoles:
    """The models that this server was given. Raises ValueError for a default it cannot call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.default = ModelChoice(model=settings.model)
        if reason := self.why_not(settings.model):
            raise ValueError(f"HONE_MODEL is {settings.model}, but {reason}")

    def choices(self, request: RefinementRequest) -> Choices:
        """Return the model of every role, whether the strategy has it or not, and of every critic
        of a panel as `critic/<name>`."""
        choices: dict[str, ModelChoice] = {role: self._choice(request, role) for role in ROLES}
        if candidates := request.models.candidates:  # until one is drawn it may be any of them
            first = ModelChoice(model=candidates[0])
            choices["generator"] = first.model_copy(update={"fallbacks": candidates[1:]})
        for member in request.critics.panel:
            named = member.model
            choices[member.seat] = choices["critic"] if named is None else _choice_of(named)
        return choices

    def why_not(self, model: str) -> str | None:
        """Return why a model cannot be called, and what to do about it; None when it can."""
        provider = provider_of(model, self._settings.providers)
        if provider is None:
            known = ", ".join(form for it in self.providers() for form in it.forms())
            return f"nobody serves {model[:100]!r} here; known are {known}"
        return self.missing(provider)

    def providers(self) -> tuple[Provider, ...]:
        """Return every provider that a request can name."""
        return (*(it for it in PROVIDERS if it.is_offered), *map(added, self._settings.providers))

    def missing(self, provider: Provider) -> str | None:
        """Return what has to be set before a provider's models can be called."""
        if not self._settings.lacks_key(provider):
            return None
        return f"{provider.name} needs a key: set {provider.key_variable} on the server"

    def _choice(self, request: RefinementRequest, role: Role) -> ModelChoice:
        return _choice_of(getattr(request.models, role) or self.default)


def playing(request: RefinementRequest) -> tuple[str, ...]:
    """Return under which names the models are chosen that the request can call."""
    is_critic = request.compare or request.criteria == AUTO
    around = {"critic": is_critic, "generator": bool(request.outputs or request.review)}
    added = (role for role, is_asked in around.items() if is_asked)
    return tuple(dict.fromkeys((*_playing(request), *added)))


def _playing(request: RefinementRequest) -> tuple[str, ...]:
    """Return those that the strategy can call."""
    roles = PLAYING[request.strategy.kind]
    if request.strategy.kind == "self_consistency" and request.strategy.vote == "exact":
        return ("generator",)
    if "critic" not in roles or not request.critics.panel:
        return roles
    alone = request.strategy.kind in JUDGING_ALONE
    rest = tuple(role for role in roles if role != "critic" or not alone)
    return (*rest, *request.critics.seats())


def _choice_of(named: str | ModelChoice) -> ModelChoice:
    return named if isinstance(named, ModelChoice) else ModelChoice(model=named)
