"""python -m benchmarks.peers.gepa_optimized PRESETS: which proposals GEPA itself keeps.

It runs in an environment with GEPA. The presets are those of `benchmarks.learning`; a proposal adds
a rule to the instructions, and GEPA has as many judged texts as one proof of Hone with 20 texts.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gepa  # type: ignore[import-not-found, unused-ignore]
from gepa.core.adapter import EvaluationBatch  # type: ignore[import-not-found, unused-ignore]

from benchmarks.learning import GAINS, play, share

RULE, SEED = "Follow the rule.", "Write a text."
TRAIN, VALIDATION = range(100, 110), range(20)
MOST_CALLS = 46
"""The seed and one candidate on all 20, and both on the minibatch of 3 that comes before."""


@dataclass
class SimulatedAdapter:
    """Refines and judges the texts of a preset; each evaluation has luck of its own."""

    preset: int
    gain: float
    evaluated: int = field(default=0)

    propose_new_texts = None

    def evaluate(
        self, batch: Sequence[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Return the judge's score of each text under a candidate."""
        self.evaluated += 1
        gain = self.gain if RULE in candidate["instructions"] else 0.0
        arm = 20 + self.evaluated
        scores = [play(self.preset, arm, number, gain).score for number in batch]
        traces = list(scores) if capture_traces else None
        return EvaluationBatch(outputs=list(scores), scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], batch: Any, components: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return what the proposer is told; it knows its proposal anyway."""
        return {name: [{"score": score} for score in batch.scores] for name in components}


class Silent:
    """A logger that says nothing."""

    def log(self, message: str) -> None:
        """Say nothing."""


def keeps(preset: int, gain: float) -> tuple[bool, int]:
    """Return whether GEPA's best candidate has the rule, and how many texts it evaluated."""
    result = gepa.optimize(
        seed_candidate={"instructions": SEED},
        trainset=list(TRAIN),
        valset=list(VALIDATION),
        adapter=SimulatedAdapter(preset, gain),
        custom_candidate_proposer=lambda *_: {"instructions": f"{SEED} {RULE}"},
        max_metric_calls=MOST_CALLS,
        logger=Silent(),
        seed=preset,
    )
    return RULE in result.best_candidate["instructions"], result.total_metric_calls or 0


def main() -> None:
    """Print the share of presets for which GEPA keeps each kind of proposal."""
    presets = range(int(sys.argv[1]))
    found: dict[float, list[tuple[bool, int]]] = {}
    for gain in GAINS:
        print(f"GEPA: proposals of {gain:+.2f}", file=sys.stderr, flush=True)
        found[gain] = [keeps(preset, gain) for preset in presets]
    told = ", ".join(f"{gain:+.2f}: {share([it for it, _ in of])}" for gain, of in found.items())
    calls = [calls for of in found.values() for _, calls in of]
    mean = sum(calls) / len(calls)
    print(f"GEPA ({len(presets)} presets, {mean:.0f} judged texts each) keeps: {told}.")


if __name__ == "__main__":
    main()
