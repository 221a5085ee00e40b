"""python -m benchmarks.learning [--presets 400] [--gepa 100] [--write]: what proposals get right.

Simulated presets, with the revisers and critics of `benchmarks.simulation`: a proposal shifts the
true quality of every first draft, or does not. Both settings are played with the strategy as
shipped, a critic judges, and the proof is that of the product. `--gepa` lets GEPA choose on so
many presets too, in an environment of its own. `--write` puts them into docs/data/learning.txt.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean

from app.contract.providers import cost_usd
from app.contract.requests import RefinementRequest
from benchmarks.environments import CannotInstall, environment_with
from benchmarks.simulation.policies import hone
from benchmarks.simulation.world import CRITICS, REVISERS, World, quality_of, text_of
from hone_extras.compare.comparison import TextOutcome
from hone_extras.learn.proof import compared, confidence_of
from hone_extras.learn.requests import PRESENT, PROPOSED

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "data" / "learning.txt"
REQUEST = RefinementRequest(task="A text.")
GAINS = (0.2, 0.1, 0.05, 0.0, -0.1)
"""By how much a proposal raises the true quality of a first draft."""

TEXTS = (6, 20, 50)
TRIES = 4
HARD = 0.1
"""Standard deviation of the difficulty of texts."""

MODEL, TOKENS = "openai:gpt-5-mini", (700, 300)
GEPA = "gepa==0.1.4"
SAID_EACH = 20
"""Presets after which the progress is said."""


@dataclass(frozen=True)
class SettingWorld:
    """A world in which first drafts are better or worse by `shift`."""

    world: World
    shift: float

    def write(self, key: str) -> str:
        """Return a first draft."""
        shifted = quality_of(self.world.write(key)) + self.shift
        return text_of(min(1.0, max(0.0, shifted)), key)

    def revise(self, key: str, text: str) -> str:
        """Return the revision of a text."""
        return self.world.revise(key, text)

    def score(self, key: str, text: str) -> float:
        """Return the critic's score of a text."""
        return self.world.score(key, text)

    def quality(self, text: str) -> float:
        """Return the true quality of a text."""
        return quality_of(text)


@dataclass(frozen=True)
class PlayedText:
    """What came of a text under a setting: true quality, the judge's score, calls of models."""

    quality: float
    score: float
    calls: int


def play(preset: int, arm: int, number: int, gain: float) -> PlayedText:
    """Return what a preset makes of a text; `arm` tells independent plays apart."""
    kind = Random(f"preset {preset}")
    reviser, critic = kind.choice(REVISERS), kind.choice(CRITICS)
    hard = Random(f"text {preset} {number}").gauss(0, HARD)
    seed = (preset * 100 + arm) * 1_000 + number
    world = SettingWorld(World(seed, reviser, critic), gain - hard)
    done = hone(world, REQUEST)
    score = critic.score(done.quality, Random(f"judge {seed}"))
    return PlayedText(done.quality, score, done.calls)


@dataclass(frozen=True)
class TriedProposal:
    """What the proof says of one proposal, and what it took."""

    gain: float
    texts: int
    is_significant: bool
    is_higher: bool
    true_gain: float
    calls: int


def tried(
    present: Sequence[PlayedText], proposed: Sequence[PlayedText], gain: float, attempt: int = 0
) -> TriedProposal:
    """Return what the product's proof says of these plays."""
    outcomes = [
        {
            PRESENT: TextOutcome(has_text=True, judged=(old.score,)),
            PROPOSED: TextOutcome(has_text=True, judged=(new.score,)),
        }
        for old, new in zip(present, proposed, strict=True)
    ]
    proof = compared(outcomes, len(outcomes), confidence_of(attempt))
    both = [*present, *proposed]
    return TriedProposal(
        gain,
        len(outcomes),
        proof.significant,
        proof.gain is not None and proof.gain.mean > 0,
        fmean(new.quality for new in proposed) - fmean(old.quality for old in present),
        1 + sum(each.calls for each in both) + len(both),
    )


def tries_on(preset: int) -> tuple[list[TriedProposal], bool]:
    """Return what becomes of each kind of proposal, and whether one of several useless ones won."""
    most = max(TEXTS)
    present = [play(preset, 0, number, 0.0) for number in range(most)]
    found = []
    for arm, gain in enumerate(GAINS, 1):
        proposed = [play(preset, arm, number, gain) for number in range(most)]
        found += [tried(present[:texts], proposed[:texts], gain) for texts in TEXTS]
    useless = [
        tried(present[:20], [play(preset, 10 + arm, it, 0.0) for it in range(20)], 0.0, arm)
        for arm in range(TRIES)
    ]
    return found, any(each.is_significant for each in useless)


def share(found: Sequence[bool]) -> str:
    """Return a share in percent."""
    return f"{100 * sum(found) / len(found):.1f} %"


def tables(presets: int, processes: ProcessPoolExecutor) -> str:
    """Return the tables of all presets; say on standard error how many were played."""
    played = list[tuple[list[TriedProposal], bool]]()
    for each in processes.map(tries_on, range(presets), chunksize=5):
        played.append(each)
        if len(played) % SAID_EACH == 0:
            print(f"{len(played)} of {presets} presets", file=sys.stderr, flush=True)
    tries = [each for found, _ in played for each in found]
    heads = " | ".join(f"{texts} texts" for texts in TEXTS)
    lines = [
        f"| gain of a first draft | of a result | {heads} | higher mean of 20 |",
        f"|--:|--:|{'--:|' * len(TEXTS)}--:|",
    ]
    for gain in GAINS:
        of = [each for each in tries if each.gain == gain]
        true = fmean(each.true_gain for each in of if each.texts == max(TEXTS))
        cells = [share([it.is_significant for it in of if it.texts == texts]) for texts in TEXTS]
        mean = share([each.is_higher for each in of if each.texts == 20])
        lines.append(f"| {gain:+.2f} | {true:+.3f} | {' | '.join(cells)} | {mean} |")
    calls = {texts: fmean(it.calls for it in tries if it.texts == texts) for texts in TEXTS}
    price = cost_usd(MODEL, *TOKENS) or 0.0
    spent = "; ".join(f"{n} texts {it:.0f}, ${it * price:.2f}" for n, it in calls.items())
    again = share([any_won for _, any_won in played])
    lines += [
        "",
        f"{presets} presets. A false proposal among {TRIES} in a row: {again} of presets.",
    ]
    about = f"{MODEL}, {TOKENS[0]} tokens in, {TOKENS[1]} out a call"
    return "\n".join([*lines, f"Calls and dollars ({about}): {spent}."])


def chosen_by_gepa(presets: int) -> str:
    """Return what GEPA itself chooses, with as many judged texts; or why it cannot be run."""
    try:
        python = environment_with("gepa", GEPA, has_hone=True)
    except CannotInstall as error:
        return f"{GEPA} {error}"
    command = [str(python), "-m", "benchmarks.peers.gepa_optimized", str(presets)]
    own = os.environ | {"PYTHONPATH": str(ROOT / "extras")}
    done = subprocess.run(command, cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    """Play, print, and when asked write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presets", type=int, default=400)
    parser.add_argument("--gepa", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with ProcessPoolExecutor() as processes:
        printed = tables(arguments.presets, processes)
    if arguments.gepa:
        printed += f"\n\n{chosen_by_gepa(arguments.gepa)}"
    print(printed)
    if arguments.write:
        FIGURES.write_text(f"{printed}\n")


if __name__ == "__main__":
    main()
