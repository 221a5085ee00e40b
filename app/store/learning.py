"""What is learnt from ended refinements: of which kind, what one adds, and what the next one gets.

Two hashes of sums grow with each refinement (`Addition`): of its own kind, and of all kinds with
the same models. A third one has how far each critic of a tenant can be trusted.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from math import exp, sqrt
from typing import Any, Self

from pydantic_core import from_json, to_json

from app.contract.calibration import CalibratedKind, FirstDrafts
from app.contract.criteria import AUTO
from app.contract.learnt import Learnt
from app.contract.requests import RefinementRequest
from app.contract.values import value
from app.store import keys
from app.store.codec import decode_sums
from app.store.state import Addition

DECAY = 0.99
"""What is left of a sum at each addition: about the latest 100 count."""

DIGITS = 16
"""Hexadecimal digits of the SHA-256 that names a kind, or a set of criteria."""

PRIOR_TRUST = 0.5
PRIOR_WEIGHT = 1.0
"""The prior weighs as much as 25 pairs of drafts whose scores differ by 0.2."""


def _digest(named: object) -> str:
    return hashlib.sha256(to_json(named)).hexdigest()[:DIGITS]


def critic_of(request: RefinementRequest, models: Mapping[str, str]) -> str:
    """Return the name under which a critic's scores are compared, by the names of the models.

    It has all models of a panel, and how often each critic is asked if that is more than once.
    """
    critic = " + ".join(sorted(models[seat] for seat in request.critics.seats()))
    samples = request.critics.samples
    return f"{critic} x {samples}" if samples > 1 else critic


@value(slots=True)
class Kind:
    """What refinements have in common that learn from each other.

    `criteria` is a hash of their names, descriptions and weights.
    """

    generator: str
    critic: str
    criteria: str
    strategy: str

    @classmethod
    def of(cls, request: RefinementRequest, models: Mapping[str, str]) -> Self:
        """Return the kind of a request, whose models are named by seat."""
        rubric = [[it.name, it.description, it.weight] for it in request.judged_on()]
        return cls(
            generator=models["generator"],
            critic=critic_of(request, models),
            criteria=_digest(AUTO if request.criteria == AUTO else rubric),
            strategy=request.strategy.kind,
        )

    @property
    def own(self) -> str:
        """The name of the sums of this kind alone."""
        return _names_of(self)[0]

    @property
    def with_its_models(self) -> str:
        """The name of the sums of all kinds with its models."""
        return _names_of(self)[1]


@lru_cache(maxsize=256)
def _names_of(kind: Kind) -> tuple[str, str]:
    return _digest(list(_by_name(kind).values())), _digest([kind.generator, kind.critic])


@value(slots=True)
class Hypotheses:
    """What the evidence of a version is about, one place for each hypothesis.

    It is stored with the evidence, so that a server of another release can say what was learnt.
    """

    noise: tuple[float, ...]
    gain: tuple[float, ...]
    prior: tuple[float, ...]


@value(slots=True)
class Agreement:
    """Sums over pairs of drafts that a critic scored and somebody else compared.

    `product` adds up what the critic's scores differ by times what the others' do, `square` the
    former squared.
    """

    pairs: float = 0
    product: float = 0
    square: float = 0

    @classmethod
    def of_scores(cls, apparent: float, true: float) -> Self:
        """Return one pair: what the critic's scores differ by, and what the others' do."""
        return cls(1, apparent * true, apparent * apparent)

    @classmethod
    def of_preference(cls, apparent: float, *, agrees: bool, weight: float = 1.0) -> Self:
        """Return one pair of which only the better draft is known.

        It counts as if the difference were as large as the critic's, so that a critic whose
        direction is right in three of four cases is trusted by half.
        """
        square = weight * apparent * apparent
        return cls(1, square if agrees else -square, square)

    @property
    def trust(self) -> float:
        """Share of an apparent change to believe, from 0 to 1.

        The slope of the least squares line through the origin, shrunk to `PRIOR_TRUST`. The noise
        of the critic makes it smaller.
        """
        slope = (self.product + PRIOR_TRUST * PRIOR_WEIGHT) / (self.square + PRIOR_WEIGHT)
        return min(1.0, max(0.0, slope))


def lessons(
    tenant: str, kind: Kind, lesson: Learnt, hypotheses: Hypotheses
) -> tuple[Addition, ...]:
    """Return what a refinement adds to the sums of its kind, and to those of its models."""
    sums = {
        "refinements": (lesson.refinements,),
        "evidence": lesson.evidence,
        "first_drafts": lesson.first_drafts,
        "predicted": lesson.predicted,
    }
    return tuple(
        Addition(
            keys.learnt(tenant, name),
            sums,
            decay=DECAY,
            version=lesson.bank,
            about=about,
            listed_in=keys.all_learnt(tenant),
        )
        for name, about in _described(kind, hypotheses)
    )


@lru_cache(maxsize=256)
def _described(kind: Kind, hypotheses: Hypotheses) -> tuple[tuple[str, str], ...]:
    """Return the names of the two sums, each with what they are of (JSON)."""
    of_models = {"generator": kind.generator, "critic": kind.critic}
    named = {kind.own: _by_name(kind), kind.with_its_models: of_models}
    return tuple((name, to_json(of | _by_name(hypotheses)).decode()) for name, of in named.items())


def _by_name(it: Kind | Hypotheses) -> dict[str, Any]:
    return {member.name: getattr(it, member.name) for member in fields(it)}


def agreements(tenant: str, critic: str, pairs: Iterable[Agreement]) -> tuple[Addition, ...]:
    """Return what pairs of drafts add to the trust in a critic; nothing if there are none."""
    found = [it for it in pairs if it.square > 0]
    if not found:
        return ()
    sums = (sum(it.pairs for it in found), sum(it.product for it in found))
    pairs_sums = (*sums, sum(it.square for it in found))
    return (Addition(keys.trust(tenant), {f"pairs {critic}": pairs_sums}, decay=DECAY),)


def outcome_of(tenant: str, kind: Kind, chance: float, *, is_met: bool) -> Addition:
    """Return what a predicted chance and a person's word on it add to the sums of its kind.

    They go with the evidence: without a version they begin no sums that other releases read.
    """
    sums = {"rated": (1.0, float(is_met), chance, chance * (1 - chance))}
    return Addition(keys.learnt(tenant, kind.own), sums, decay=DECAY)


def rated_once(tenant: str, critic: str) -> Addition:
    """Return what a person's rating adds to the number of those of a critic's drafts."""
    return Addition(keys.trust(tenant), {f"ratings {critic}": (1,)})


def decode_learnt(stored: bytes) -> Learnt | None:
    """Return what claim.lua copied for a refinement; None if nothing was known."""
    if not stored:
        return None
    found = from_json(stored)
    trust = Agreement(*found.get("pairs", ())).trust
    if "version" not in found:  # only the critic is known
        return Learnt(bank=1, is_own=False, trust=trust)
    return Learnt(
        bank=found["version"],
        refinements=found["refinements"][0],
        evidence=found.get("evidence", ()),
        first_drafts=found["first_drafts"],
        predicted=found.get("predicted", (0, 0)),
        rated=found.get("rated", (0, 0, 0, 0)),
        is_own=found["is_own"],
        trust=trust,
    )


def calibrations(
    kinds: Iterable[Mapping[bytes, bytes]], critics: Mapping[bytes, bytes]
) -> tuple[CalibratedKind, ...]:
    """Return what is stored of kinds, and of critics of whom nothing else is known."""
    known = {name.decode(): decode_sums(sums) for name, sums in critics.items()}
    rows = [_calibration(_members(it), known) for it in kinds if it]
    named = {name.partition(" ")[2] for name in known} - {it.critic for it in rows}
    alone = [_calibration({"about": {"critic": critic}}, known) for critic in sorted(named)]
    return (*rows, *alone)


def _members(stored: Mapping[bytes, bytes]) -> dict[str, Any]:
    return {name.decode(): decode_sums(value) for name, value in stored.items()}


def _calibration(found: Mapping[str, Any], critics: Mapping[str, Any]) -> CalibratedKind:
    about = found["about"]
    critic = about["critic"]
    agreement = Agreement(*critics.get(f"pairs {critic}", ()))
    weights = _weights(found)
    return CalibratedKind(
        generator=about.get("generator"),
        critic=critic,
        strategy=about.get("strategy"),
        criteria=about.get("criteria"),
        refinements=found.get("refinements", [0])[0],
        noise=_mean(weights, about.get("noise", ())),
        gain=_mean(weights, about.get("gain", ())),
        first_drafts=_first_drafts(*found.get("first_drafts", (0, 0, 0))),
        trust=agreement.trust,
        pairs=agreement.pairs,
        ratings=int(critics.get(f"ratings {critic}", [0])[0]),
    )


def _weights(found: Mapping[str, Any]) -> list[float]:
    """Return the weight of each hypothesis after the evidence, up to a factor."""
    evidence, prior = found.get("evidence", ()), found["about"].get("prior", ())
    most = max(evidence, default=0.0)
    return [it * exp(said - most) for it, said in zip(prior, evidence, strict=False)]


def _mean(weights: Sequence[float], values: Sequence[float]) -> float | None:
    total = sum(weights)
    if not total:
        return None
    return sum(weight * it for weight, it in zip(weights, values, strict=True)) / total


def _first_drafts(count: float, total: float, squares: float) -> FirstDrafts | None:
    if count <= 0:
        return None
    mean = total / count
    variance = max(0.0, squares / count - mean * mean)
    sd = sqrt(variance * count / (count - 1)) if count > 1 else None
    return FirstDrafts(mean=min(1.0, max(0.0, mean)), sd=sd)
