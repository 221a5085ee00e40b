"""The criteria that the editor lists: what it can measure, and bounds that the task spells out."""

from app.contract.criteria import Criterion
from app.contract.editor import Measure, MeasureKind, Scale, measure_for
from workers.models.editor.json_text import looks_like_json

PROSE = (
    Criterion(name="clarity", description="Is it clear and easy to read?"),
    Criterion(name="conciseness", description="Is it concise, without padding?"),
    Criterion(name="spelling", description="Is it free of spelling mistakes?"),
    Criterion(name="active voice", description="Is it written in active voice?"),
    Criterion(name="jargon", description="Is it free of jargon?"),
)
VALID_JSON = Criterion(name="valid json", description="Is it valid JSON?")

MOST_READ = 2_000
"""Characters of a task that are searched for a bound."""


def checklist(instruction: str | None, draft: str | None) -> tuple[Criterion, ...]:
    """Return five or six criteria, every one of which the editor can measure."""
    task = (instruction or "")[:MOST_READ]
    measure = measure_for(Criterion(name="length", description=task))
    if looks_like_json(draft or "") or (measure and measure.kind is MeasureKind.JSON):
        return (VALID_JSON, *PROSE)
    if measure and measure.scale is Scale.GRADE:
        question = f"Can it be read at grade {measure.maximum}?"
        return (Criterion(name="reading grade", description=question), *PROSE)
    if measure and measure.kind is MeasureKind.LENGTH:
        return (Criterion(name="length", description=_length(measure)), *PROSE)
    return PROSE


def _length(measure: Measure) -> str:
    """Return the question that the measure is read from again."""
    low, high, scale = measure.minimum, measure.maximum, measure.scale
    if low is not None and high is not None:
        return f"Is it between {low} and {high} {scale} long?"
    bound = f"at least {low}" if low is not None else f"at most {high}"
    return f"Has it {bound} {scale}?"
