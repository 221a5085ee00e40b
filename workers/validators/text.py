"""The validators of texts: length, required and forbidden text, readability and spelling."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from unicodedata import category, is_normalized, normalize

from app.contract.regexes import compile_pattern
from app.contract.validators.text import (
    MEASURES,
    UNITS,
    ContainsValidator,
    ExcludesValidator,
    LengthValidator,
    ReadabilityMeasure,
    ReadabilityValidator,
    RegexValidator,
    SpellingValidator,
    Unit,
)
from workers.text.document import Document, Sentence
from workers.text.edits import Edit
from workers.text.readability import TextCounts, flesch_kincaid_grade, flesch_reading_ease
from workers.text.spelling import repetitions, spelling
from workers.text.words import UNSPACED_LETTER, count_of_words, sentences
from workers.validators.violation import Violation, abbreviated, excess, spot, violation_at

COUNT: Mapping[Unit, Callable[[str], int]] = {
    "characters": len,
    "words": count_of_words,
    "sentences": lambda text: sum(1 for _ in sentences(text)),
}


def check_length(validator: LengthValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every limit on length that the draft does not meet."""
    for unit in UNITS:
        least, most = validator.bounds(unit)
        if least is None and most is None:
            continue
        count = COUNT[unit](draft)
        if most is not None and count > most:
            yield Violation(
                f"the draft has {_counted(count, unit)}, expected at most {most}",
                f"shorten it by {_counted(count - most, unit)} or more",
                weight=excess(count, most),
            )
        if least is not None and count < least:
            yield Violation(
                f"the draft has {_counted(count, unit)}, expected at least {least}",
                f"lengthen it by {_counted(least - count, unit)} or more",
                weight=excess(count, least),
            )


def _counted(count: int, unit: Unit) -> str:
    return f"{count} {unit[:-1] if count == 1 else unit}"


def check_contains(validator: ContainsValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every required text that the draft does not contain exactly."""
    exact, folded = (_compared(draft, is_exact=is_exact) for is_exact in (True, False))
    for text in validator.texts:
        if text in draft or (validator.case_sensitive and _compared(text, is_exact=True) in exact):
            continue
        in_any_case = _compared(text, is_exact=False) in folded
        if in_any_case and not validator.case_sensitive:
            continue
        yield Violation(
            f"the draft does not contain {abbreviated(text)!r}"
            + (" with this capitalization" if in_any_case else ""),
            f"add exactly this text: {text}",
        )


def check_excludes(validator: ExcludesValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for each occurrence of a forbidden text."""
    return _everywhere(validator, draft)


def fix_excludes(validator: ExcludesValidator, draft: str) -> Iterator[Edit]:
    """Yield the replacement of every forbidden text; a capital at its start is kept."""
    is_exact, given = validator.case_sensitive, validator.replacements.items()
    new = {_compared(before, is_exact=False): after for before, after in given}
    exact = {_compared(before, is_exact=True): after for before, after in given if is_exact}
    for found in _everywhere(validator, draft):
        if found.span is not None:
            old = draft[slice(*found.span)]
            known = new.get(_compared(old, is_exact=False), old)
            after = exact.get(_compared(old, is_exact=True), known)
            yield Edit(*found.span, after[:1].upper() + after[1:] if old[:1].isupper() else after)


def _everywhere(validator: ExcludesValidator, draft: str) -> Iterator[Violation]:
    is_exact = validator.case_sensitive
    searched = _compared(draft, is_exact=is_exact)
    is_same = len(searched) == len(draft) and is_normalized("NFC", draft)
    places = None if is_same else _places(draft, is_exact=is_exact)
    for text in validator.texts:
        wanted = _compared(text, is_exact=is_exact)
        for at in _found(wanted, searched, whole_words=validator.whole_words):
            last = at + len(wanted) - 1
            start, end = (places[at][0], places[last][1]) if places else (at, last + 1)
            yield Violation(
                f"the draft contains the forbidden text {abbreviated(text)!r}",
                "remove or reword it",
                span=(start, end),
                quote=draft[start:end] if end - start <= 200 else None,
            )


def _found(wanted: str, text: str, *, whole_words: bool) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_hit = not whole_words or not (
            _joined(text[at - 1 : at], wanted[0]) or _joined(wanted[-1], text[end : end + 1])
        )
        if is_hit:
            yield at
        at = text.find(wanted, end if is_hit else at + 1)


def _joined(left: str, right: str) -> bool:
    """Tell whether two characters are of one word, whose letters may have marks of their own.

    In scripts without spaces each letter is a word.
    """
    if not all(side and (side.isalnum() or category(side)[0] == "M") for side in (left, right)):
        return False
    return category(right)[0] == "M" or UNSPACED_LETTER.search(left + right) is None


def _compared(text: str, *, is_exact: bool) -> str:
    """Return a text in the form in which it is compared: one for each way to write a letter."""
    composed = normalize("NFC", text)
    return composed if is_exact else composed.casefold()


def _places(draft: str, *, is_exact: bool) -> list[tuple[int, int]]:
    """Return which range of the draft each character of its compared form comes from."""
    inner = [category(each)[0] == "M" or "\u1160" <= each <= "\u11ff" for each in draft]
    starts = [at for at, is_inner in enumerate(inner) if not (is_inner and at)]
    places: list[tuple[int, int]] = []
    for start, end in pairwise([*starts, len(draft)]):
        step = 1 if is_normalized("NFC", draft[start:end]) else end - start
        for at in range(start, end, step):
            length = len(_compared(draft[at : at + step], is_exact=is_exact))
            places += [(at, at + step)] * length
    return places


def check_regex(validator: RegexValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation if nothing matches, or for each forbidden match."""
    pattern = compile_pattern(validator.pattern, case_sensitive=validator.case_sensitive)
    if validator.expect == "no_match":
        for found in pattern.finditer(draft):
            start, end = found.span()
            yield Violation(
                f"{abbreviated(draft[start:end])!r} matches the forbidden {validator.pattern!r}",
                "remove or reword it",
                span=(start, end),
                quote=draft[start:end] if end - start <= 200 else None,
            )
    elif not pattern.search(draft):
        yield Violation(
            f"nothing in the draft matches {validator.pattern!r}",
            "write a passage that matches the pattern (RE2 syntax)",
        )


FORMULA: Mapping[ReadabilityMeasure, tuple[str, Callable[[TextCounts], float]]] = {
    "reading_ease": ("Flesch reading ease", flesch_reading_ease),
    "grade": ("Flesch-Kincaid grade", flesch_kincaid_grade),
    "sentence_words": ("mean sentence length in words", lambda counts: counts.words_per_sentence),
}
EASIER = "split long sentences and use shorter words; begin with the sentence at {}"
HARDER = "join sentences that belong together, and use the exact words of the subject"


def check_readability(validator: ReadabilityValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every limit on readability that the draft does not meet.

    If the draft is too hard to read, the violation points at the longest sentence.
    """
    measured = Document(draft).sentences
    if not measured:
        yield Violation("the draft has no sentence to measure", "write prose")
        return
    counts = TextCounts.of(measured)
    for measure in MEASURES:
        name, formula = FORMULA[measure]
        value = formula(counts)
        least, most = validator.bounds(measure)
        if most is not None and value > most:
            said = f"the {name} is {value:.1f}, expected at most {most:g}"
            found = _hard_to_read(said, measured, draft, is_too_hard=measure != "reading_ease")
            yield replace(found, weight=excess(value, most))
        if least is not None and value < least:
            said = f"the {name} is {value:.1f}, expected at least {least:g}"
            found = _hard_to_read(said, measured, draft, is_too_hard=measure == "reading_ease")
            yield replace(found, weight=excess(value, least))


def _hard_to_read(
    said: str, measured: tuple[Sentence, ...], draft: str, *, is_too_hard: bool
) -> Violation:
    if not is_too_hard:
        return Violation(said, HARDER)
    longest = max(measured, key=lambda sentence: len(sentence.words))
    text = draft[longest.start : longest.end].rstrip()
    return Violation(
        said,
        EASIER.format(f"{spot(draft, longest.start)}, which has {len(longest.words)} words"),
        span=(longest.start, longest.start + len(text)),
        quote=text if len(text) <= 200 else None,
    )


def load_spelling() -> None:
    """Read the lists of words, by a check that needs them all."""
    tuple(check_spelling(SpellingValidator(kind="spelling"), "I beleive that that is is a error."))


def check_spelling(validator: SpellingValidator, draft: str) -> Iterator[Violation]:
    """Yield the misspelled or repeated words, in the order of the draft."""
    allowed = {word.casefold() for word in validator.allow}
    document = Document(draft)
    issues = sorted((*spelling(document), *repetitions(document)), key=lambda issue: issue.start)
    wrong = (issue for issue in issues if not _is_allowed(draft[issue.start : issue.end], allowed))
    for issue in wrong:
        yield violation_at(
            draft,
            issue.start,
            issue.message.removesuffix("."),
            issue.fix or "correct it",
            issue.end - issue.start,
        )


def fix_spelling(validator: SpellingValidator, draft: str) -> Iterator[Edit]:
    """Yield the correction of every misspelled or repeated word that has only one."""
    allowed = {word.casefold() for word in validator.allow}
    document = Document(draft)
    for issue in (*spelling(document), *repetitions(document)):
        if issue.edit is not None and not _is_allowed(draft[issue.start : issue.end], allowed):
            yield issue.edit


def _is_allowed(text: str, allowed: set[str]) -> bool:
    return text.casefold() in allowed or text.casefold().split()[0] in allowed
