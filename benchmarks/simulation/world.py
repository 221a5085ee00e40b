"""Simulated writers, revisers and critics, and texts that carry their true quality.

The quality of a text is a number in [0, 1] that only this module reads. Random draws depend on the
seed and the key of a step, never on the order of calls: two policies that reach the same step with
different texts have the same draws there, so that only the policy differs between them.
"""

import re
from dataclasses import dataclass
from random import Random
from typing import Protocol

FIRST_DRAFT = (0.5, 0.15)
"""Mean and standard deviation of the quality of a first draft, which is clipped to [0, 1]."""
QUALITY = re.compile(r"of quality (\S+)(?: and appeal (\S+))? written at")


class TextWorld(Protocol):
    """A writer, a reviser and a critic, who draw their luck from the keys of their steps."""

    def write(self, key: str) -> str:
        """Return a first draft."""

    def revise(self, key: str, text: str) -> str:
        """Return the revision of a text."""

    def score(self, key: str, text: str) -> float:
        """Return the critic's score of a text."""

    def quality(self, text: str) -> float:
        """Return the true quality of a text, which no policy can read."""


def text_of(quality: float, key: str, appeal: float = 0.0) -> str:
    """Return a text of that quality; no two steps write the same text."""
    appealing = f" and appeal {appeal!r}" if appeal else ""
    return f"A text of quality {quality!r}{appealing} written at {key}."


def quality_of(text: str) -> float:
    """Return the true quality of a text."""
    return _parts_of(text)[0]


def _parts_of(text: str) -> tuple[float, float]:
    """Return the quality and the appeal of a text."""
    found = QUALITY.search(text)
    if found is None:
        raise ValueError(f"not a text of the simulation: {text!r}")
    return float(found[1]), float(found[2] or 0)


@dataclass(frozen=True)
class Reviser:
    """How a revision changes the quality q.

    It helps with a probability that falls from `helps_worst` (q = 0) to `helps_best` (q = 1), and
    then closes a random share, `reach` at most, of the gap to `ceiling`. Otherwise it harms: the
    text loses a random share of its quality, `harm` at most. Each revision is `flatters` more
    appealing to the critic than it is good.
    """

    name: str
    helps_worst: float
    helps_best: float
    reach: float
    harm: float
    ceiling: float = 1.0
    flatters: float = 0.0

    def revised(self, quality: float, luck: Random) -> float:
        """Return the quality after one revision."""
        helps = self.helps_worst + (self.helps_best - self.helps_worst) * quality
        if luck.random() < helps:
            return quality + luck.uniform(0, self.reach) * max(0.0, self.ceiling - quality)
        return quality - luck.uniform(0, self.harm) * quality


@dataclass(frozen=True)
class Critic:
    """How a critic misreads the quality q: it reports clip(q + bias + sigma * noise).

    The noise is normal, or Student's t with 3 degrees of freedom when `has_heavy_tails`. A share
    `rubbish` of the replies is uniform on [0, 1] whatever the text. With `grain`, scores are
    multiples of it. When `is_stubborn`, the error depends on the text: asked again, it is the same.
    Further: an appeal of standard deviation `appeal` stays with a text, and a revision has a share
    `inherited` of it; scores crowd between `lowest` and 1; bad texts add noise, `rough` for the
    worst; with `questions` the score is the share of so many that are answered with yes.
    """

    name: str
    sigma: float = 0.0
    bias: float = 0.0
    has_heavy_tails: bool = False
    rubbish: float = 0.0
    grain: float = 0.0
    is_stubborn: bool = False
    appeal: float = 0.0
    inherited: float = 0.0
    lowest: float = 0.0
    rough: float = 0.0
    questions: int = 0

    def score(self, quality: float, luck: Random) -> float:
        """Return the reported score of a quality, which includes the appeal."""
        if self.questions:
            return sum(luck.random() < quality for _ in range(self.questions)) / self.questions
        if luck.random() < self.rubbish:
            return luck.random()
        noise = luck.gauss(0, 1)
        if self.has_heavy_tails:
            noise /= (luck.gammavariate(1.5, 2) / 3) ** 0.5
        sigma = self.sigma + self.rough * (1 - quality)
        said = self.lowest + (1 - self.lowest) * quality + self.bias + sigma * noise
        if self.grain:
            said = round(said / self.grain) * self.grain
        return min(1.0, max(0.0, said))


@dataclass(frozen=True)
class World:
    """The writer, reviser and critic of one seed."""

    seed: int
    reviser: Reviser
    critic: Critic

    def write(self, key: str) -> str:
        """Return a first draft."""
        luck = self._luck(key)
        quality = min(1.0, max(0.0, luck.gauss(*FIRST_DRAFT)))
        return text_of(quality, key, self.critic.appeal and luck.gauss(0, self.critic.appeal))

    def revise(self, key: str, text: str) -> str:
        """Return the revision of a text."""
        luck, (quality, appeal) = self._luck(key), _parts_of(text)
        revised, critic = self.reviser.revised(quality, luck), self.critic
        if critic.appeal:
            own = (1 - critic.inherited**2) ** 0.5 * critic.appeal
            appeal = critic.inherited * appeal + luck.gauss(0, own)
        return text_of(revised, key, appeal + self.reviser.flatters)

    def score(self, key: str, text: str) -> float:
        """Return a critic's score of a text."""
        luck = self._luck(text if self.critic.is_stubborn else key)
        return self.critic.score(sum(_parts_of(text)), luck)

    def quality(self, text: str) -> float:
        """Return the true quality of a text."""
        return quality_of(text)

    def _luck(self, key: str) -> Random:
        return Random(f"{self.seed} {key}")


REVISERS = (
    Reviser("steady", helps_worst=0.95, helps_best=0.60, reach=0.4, harm=0.1),
    Reviser("fair", helps_worst=0.80, helps_best=0.40, reach=0.4, harm=0.3),
    Reviser("erratic", helps_worst=0.70, helps_best=0.30, reach=0.5, harm=0.5),
)

CRITICS = (
    Critic("exact"),
    Critic("sd 0.05", sigma=0.05),
    Critic("sd 0.1", sigma=0.1),
    Critic("sd 0.2", sigma=0.2),
    Critic("sd 0.1, heavy tails", sigma=0.1, has_heavy_tails=True),
    Critic("sd 0.05, 1 in 10 rubbish", sigma=0.05, rubbish=0.1),
    Critic("sd 0.1, lenient by 0.1", sigma=0.1, bias=0.1),
    Critic("sd 0.1, in tenths", sigma=0.1, grain=0.1),
    Critic("sd 0.1, sticks to the text", sigma=0.1, is_stubborn=True),
)

WIDE_REVISERS = (
    *REVISERS,
    Reviser("fading", helps_worst=0.98, helps_best=0.05, reach=0.5, harm=0.3),
    Reviser("capped", helps_worst=0.90, helps_best=0.50, reach=0.4, harm=0.1, ceiling=0.75),
    Reviser("flattering", helps_worst=0.50, helps_best=0.30, reach=0.3, harm=0.2, flatters=0.04),
)

WIDE_CRITICS = (
    Critic("sd 0.1", sigma=0.1),
    Critic("inherited", sigma=0.03, appeal=0.1, inherited=0.8),
    Critic("crowded", sigma=0.05, lowest=0.5, grain=0.05),
    Critic("rough", sigma=0.02, rough=0.25),
    Critic("5 questions", questions=5),
    Critic("10 questions", questions=10),
)
