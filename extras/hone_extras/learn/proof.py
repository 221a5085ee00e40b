"""The proof of a proposal: the statistics of `hone compare` on the texts that were held out."""

from collections.abc import Iterator, Mapping

from app.contract.batches import BatchResult
from app.contract.snapshot import Iteration
from app.contract.statistics import MeanGain
from app.contract.status import RefinementOutcome
from hone_extras.compare.comparison import (
    CONFIDENCE,
    MeanInterval,
    NoScore,
    PairedDifference,
    SettingSummary,
    TextOutcome,
    fewest_without_spread,
    verdict_on,
)
from hone_extras.compare.paired_statistics import compare_settings
from hone_extras.learn.proposal import Proof, SettingResult
from hone_extras.learn.requests import PRESENT, PROPOSED, other

MARGIN = 0.02
"""Differences of score below it do not matter, as in `hone compare`."""

FALSE_SHARE = 0.05
"""How many proposals without any gain are called significant at most, all tries of one setting
together. An interval of 95 % has half as many on its upper side, and each try half of what is
left."""


def confidence_of(attempt: int) -> float:
    """Return the confidence of the interval for a proposal, by how many were proved before it.

    It stays from the 40th on, of which the share is a trillionth: a float of 1 has no interval.
    """
    return 1 - FALSE_SHARE * 0.5 ** min(attempt, 40)


def proof_of(
    attempt: int,
    held_out: int,
    played: Mapping[str, BatchResult],
    judged: Mapping[str, BatchResult],
    scores: Mapping[str, Iteration],
) -> Proof:
    """Return what the drafts of both settings show, by the custom ids of their requests."""
    numbers = sorted({int(custom_id.partition("/")[0]) for custom_id in played})
    texts = [
        {name: _outcome(f"{number}/{name}", played, judged, scores) for name in (PRESENT, PROPOSED)}
        for number in numbers
    ]
    return compared(texts, held_out, confidence_of(attempt))


def compared(texts: list[dict[str, TextOutcome]], held_out: int, confidence: float) -> Proof:
    """Return the proof that lies in the outcomes of texts under both settings."""
    found = compare_settings((PRESENT, PROPOSED), texts, MARGIN, confidence=confidence)
    (pair,) = found.differences
    sentences = (*found.recommendation.sentences, *_of_level(pair, confidence))
    return Proof(
        significant=_is_better(pair, confidence),
        verdict=pair.verdict,
        said=" ".join(sentences) if texts else NOTHING,
        held_out=held_out if texts else 0,
        texts=0 if pair.score is None else pair.score.count,
        gain=None if pair.score is None else _gain(pair.score),
        confidence=confidence,
        wins=pair.wins,
        losses=pair.losses,
        ties=pair.ties,
        present=_result(found.settings[0]),
        proposed=_result(found.settings[1]),
        criteria={name: _gain(gap) for name, gap in pair.criteria.items()},
    )


def _of_level(pair: PairedDifference, confidence: float) -> Iterator[str]:
    """Yield the level, where earlier tries made it stricter, and that so few texts cannot reach it.

    Texts that all differ by the same have no spread, and their number alone decides.
    """
    level = f"{100 * confidence:.14g} %"
    if confidence > CONFIDENCE:
        yield f"Earlier proposals were tried for this setting, so the level is {level}, not 95 %."
    score, needed = pair.score, fewest_without_spread(confidence)
    if score is not None and pair.verdict == "open" and score.sd == 0 and score.count < needed:
        detail = "texts that all differ by the same cannot be significant at"
        yield f"{score.count} {detail} {level}: {needed} are needed."


def _gain(found: MeanInterval) -> MeanGain:
    return MeanGain(mean=found.mean, low=found.low, high=found.high)


def _result(found: SettingSummary) -> SettingResult:
    score, cost = found.score, found.cost_usd
    return SettingResult(score=score.mean if score else None, cost_usd=cost.mean if cost else None)


NOTHING = "The evidence supports no change of the setting, so nothing was played."


def _is_better(pair: PairedDifference, confidence: float) -> bool:
    """Return whether the proposed setting is better, with 0 for a text that it lacks too."""
    missing = pair.counting_missing
    holds = missing is None or verdict_on(missing, MARGIN, confidence) == "better"
    return pair.verdict == "better" and holds


def _outcome(
    custom_id: str,
    played: Mapping[str, BatchResult],
    judged: Mapping[str, BatchResult],
    scores: Mapping[str, Iteration],
) -> TextOutcome:
    found = played.get(custom_id)
    refined = found.refinement if found is not None else None
    if refined is None or refined.result is None:
        why = found.outcome if found is not None else "missing"
        no_score = NoScore(f"refining it ended as {why}", "Look at the batch that played it.")
        return TextOutcome(has_text=False, no_score=no_score, cost_usd=0.0)
    seen = custom_id if custom_id in judged else other(custom_id)  # equal drafts are judged once
    verdict = scores.get(seen)
    judgement = judged[seen].refinement if seen in judged else None
    total = None if verdict is None else verdict.score
    is_passed = judgement is not None and judgement.outcome == RefinementOutcome.PASSED
    return TextOutcome(
        has_text=True,
        judged=() if total is None else (total,),
        no_score=None if total is not None else NoScore("not judged", "Try another judge.", False),
        criteria={
            score.criterion: score.score
            for score in (verdict.scores if verdict is not None else ())
            if score.score is not None
        },
        cost_usd=refined.usage.cost_usd,
        passed=is_passed,
    )
