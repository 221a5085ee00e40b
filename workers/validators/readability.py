"""The `readability` validator: how hard a draft is to read, by the editor's formulas."""

from collections.abc import Callable, Iterator, Mapping

from app.contract.validators import MEASURES, ReadabilityMeasure, ReadabilityValidator
from workers.text.document import Document, Sentence
from workers.text.readability import TextCounts, flesch_kincaid_grade, flesch_reading_ease
from workers.validators.violation import Violation, spot

FORMULA: Mapping[ReadabilityMeasure, tuple[str, Callable[[TextCounts], float]]] = {
    "reading_ease": ("Flesch reading ease", flesch_reading_ease),
    "grade": ("Flesch-Kincaid grade", flesch_kincaid_grade),
    "sentence_words": ("mean length of a sentence in words", lambda it: it.words_per_sentence),
}
EASIER = "split long sentences and use shorter words; begin with the sentence at {}"
HARDER = "join sentences that belong together, and use the exact words of the subject"


def check_readability(validator: ReadabilityValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every bound that the draft misses.

    One that is too hard to read points at its longest sentence.
    """
    sentences = Document(draft).sentences
    if not sentences:
        yield Violation("the draft has no sentence to measure", "write prose")
        return
    counts = TextCounts.of(sentences)
    for measure in MEASURES:
        name, formula = FORMULA[measure]
        value = formula(counts)
        least, most = validator.bounds(measure)
        if most is not None and value > most:
            said = f"the {name} is {value:.1f}; at most {most:g} is allowed"
            yield _violation(said, sentences, draft, is_too_hard=measure != "reading_ease")
        if least is not None and value < least:
            said = f"the {name} is {value:.1f}; at least {least:g} is wanted"
            yield _violation(said, sentences, draft, is_too_hard=measure == "reading_ease")


def _violation(
    said: str, sentences: tuple[Sentence, ...], draft: str, *, is_too_hard: bool
) -> Violation:
    if not is_too_hard:
        return Violation(said, HARDER)
    longest = max(sentences, key=lambda sentence: len(sentence.words))
    text = draft[longest.start : longest.end].rstrip()
    return Violation(
        said,
        EASIER.format(f"{spot(draft, longest.start)}, which has {len(longest.words)} words"),
        span=(longest.start, longest.start + len(text)),
        quote=text if len(text) <= 200 else None,
    )
