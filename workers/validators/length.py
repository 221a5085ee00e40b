"""The `length` validator: how much a draft holds."""

from collections.abc import Callable, Iterator, Mapping

from app.contract.validators import UNITS, LengthValidator, Unit
from workers.text.words import sentences, words
from workers.validators.violation import Violation

COUNT: Mapping[Unit, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: sum(1 for _ in words(text)),
    "sentences": lambda text: sum(1 for _ in sentences(text)),
}


def check_length(validator: LengthValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation for every bound that the draft misses."""
    for unit in UNITS:
        least, most = validator.bounds(unit)
        if least is None and most is None:
            continue
        count = COUNT[unit](draft)
        if most is not None and count > most:
            yield Violation(
                f"the draft has {_counted(count, unit)}; at most {most} may be there",
                f"shorten it by {_counted(count - most, unit)} or more",
            )
        if least is not None and count < least:
            yield Violation(
                f"the draft has {_counted(count, unit)}; at least {least} must be there",
                f"lengthen it by {_counted(least - count, unit)} or more",
            )


def _counted(count: int, unit: Unit) -> str:
    return f"{count} {unit[:-1] if count == 1 else unit}"
