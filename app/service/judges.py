"""What `offline:editor` cannot judge, said before a refinement is stored."""

from collections.abc import Iterator, Mapping

from app.contract.criteria import AUTO
from app.contract.editor import EDITOR, measure_for
from app.contract.errors import FieldError
from app.contract.judging import CRITIC
from app.contract.requests import ModelChoice, RefinementRequest
from app.service.pointers import pointer_of


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


def unfit_for_a_checklist(
    request: RefinementRequest, choices: Mapping[str, ModelChoice]
) -> Iterator[FieldError]:
    """Give what is wrong where the editor would judge on criteria that another model lists."""
    if request.criteria != AUTO or set(choices[CRITIC].names()) == {EDITOR}:
        return
    for seat in dict.fromkeys((CRITIC, *request.critics.seats())):
        if EDITOR in choices[seat].names():
            yield FieldError(
                pointer=pointer_of(request, seat),
                detail=f"{EDITOR} may be unable to measure what a language model puts on the"
                " checklist: let it play all critics or none, or give the criteria yourself",
            )
