"""How hard a text is to read, by formulas that count words, sentences, syllables and letters.

Numbers are not words, and what is protected as code or a link is not read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from workers.models.editor.document import Sentence
from workers.models.editor.syllables import syllables


@dataclass(frozen=True, slots=True)
class Counts:
    """What the formulas count; `long_words` have three syllables or more."""

    words: int
    sentences: int
    letters: int
    syllables: int
    long_words: int

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> "Counts":
        """Count the words of the sentences."""
        words = [word for sentence in sentences for word in sentence.words]
        spoken = [syllables(word.lower) for word in words]
        return cls(
            words=len(words),
            sentences=len(sentences),
            letters=sum(character.isalpha() for word in words for character in word.text),
            syllables=sum(spoken),
            long_words=sum(count >= 3 for count in spoken),
        )

    @property
    def words_per_sentence(self) -> float:
        """Return the mean length of a sentence."""
        return self.words / self.sentences


def flesch_reading_ease(counts: Counts) -> float:
    """Return Flesch Reading Ease: 60 to 70 is plain English, below 30 very hard.

    R. Flesch, A new readability yardstick, Journal of Applied Psychology 32 (1948).
    """
    per_word = counts.syllables / counts.words
    return 206.835 - 1.015 * counts.words_per_sentence - 84.6 * per_word


def flesch_kincaid_grade(counts: Counts) -> float:
    """Return the US school year that understands the text.

    J. P. Kincaid et al., Research Branch Report 8-75, Naval Technical Training Command (1975).
    """
    return 0.39 * counts.words_per_sentence + 11.8 * counts.syllables / counts.words - 15.59


def gunning_fog(counts: Counts) -> float:
    """Return the years of schooling that the text asks for.

    R. Gunning, The technique of clear writing (1952). Words of three syllables count as hard
    whatever their ending, names included.
    """
    return 0.4 * (counts.words_per_sentence + 100 * counts.long_words / counts.words)


def smog(counts: Counts) -> float:
    """Return the SMOG grade, scaled to 30 sentences.

    G. H. McLaughlin, SMOG grading: a new readability formula, Journal of Reading 12 (1969).
    """
    return 1.0430 * sqrt(counts.long_words * 30 / counts.sentences) + 3.1291


def automated_readability_index(counts: Counts) -> float:
    """Return the ARI grade.

    E. A. Smith and R. J. Senter, Automated readability index, AMRL-TR-66-220 (1967).
    """
    return 4.71 * counts.letters / counts.words + 0.5 * counts.words_per_sentence - 21.43


def grade(counts: Counts) -> float:
    """Return the mean of the four grades: a single formula is easily off by two years."""
    grades = (flesch_kincaid_grade, gunning_fog, smog, automated_readability_index)
    return sum(formula(counts) for formula in grades) / len(grades)
