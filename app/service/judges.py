"""What `offline:editor` cannot judge, said before a refinement is stored."""

from collections.abc import Iterator, Mapping

from app.contract.editor import EDITOR, measure_for
from app.contract.errors import FieldError
from app.contract.requests import RefinementRequest


def unfit_judges(request: RefinementRequest, models: Mapping[str, str]) -> Iterator[FieldError]:
    """Give what is wrong where the editor is a critic; `models` is who plays, by role."""
    judging = [key for key in request.critics.seats() if models.get(key) == EDITOR]
    if judging and not all(any(map(measure_for, rubric)) for rubric in request.rubrics()):
        yield FieldError(
            pointer="/criteria",
            detail=f"{EDITOR} can measure none of these criteria: ask for clarity, conciseness,"
            " spelling or the like, or name a language model as critic, in models.critic or in"
            " critics.panel",
        )
    for index, member in enumerate(request.critics.panel):
        if member.seat in judging and (member.perspective or member.adversarial):
            yield FieldError(
                pointer=f"/critics/panel/{index}",
                detail=f"{EDITOR} counts words and plays no part: leave out perspective and"
                " adversarial, or name a language model in `model`",
            )
