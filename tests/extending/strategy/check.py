"""What the rest of the system knows of the added strategy; run in the copy that has its files."""

import re
from pathlib import Path

from pydantic import SecretStr

import app
from app.contract.calls import ASKED, at_most
from app.contract.errors import InvalidRequest
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.main import create_app
from app.service import offers
from app.service.admission import Admission
from app.service.model_roles import ModelRoles, playing
from app.settings import Settings

HERE = Path(__file__).parent
EXAMPLES = re.findall(r"```json\n(.*?)```", (HERE / "page.md").read_text(), re.DOTALL)
REQUEST = RefinementRequest.model_validate_json(EXAMPLES[0], strict=True)
SETTINGS = Settings(openai_api_key=SecretStr("key"), model="openai:gpt-5-mini")
ADMISSION = Admission(ModelRoles(SETTINGS), ())


def test_it_is_the_copy_that_is_tested() -> None:
    assert Path(app.__file__ or "").is_relative_to(HERE)


def test_the_api_offers_it_with_its_parameters_and_documents_it() -> None:
    (offer,) = [it for it in offers.strategies().data if it.kind == "brainstorm"]
    assert offer.defaults == {"ideas": 5}
    assert "BrainstormStrategy" in create_app(Settings()).openapi()["components"]["schemas"]


async def test_a_request_is_admitted_and_its_roles_and_calls_are_known() -> None:
    choices = await ADMISSION.admit(REQUEST)
    assert choices["generator"].model == "openai:gpt-5-mini"
    assert playing(REQUEST) == ("generator", "critic")
    assert at_most(REQUEST) == ASKED * (1 + 2 * REQUEST.max_iterations)


async def test_the_editor_is_refused_as_what_lists_ideas() -> None:
    edited = REQUEST.models.model_copy(update={"generator": ModelChoice(model="offline:editor")})
    refused = ""
    try:
        await ADMISSION.admit(REQUEST.model_copy(update={"models": edited}))
    except InvalidRequest as error:
        refused = error.detail
    assert "brainstorm lists ideas for a text, which offline:editor cannot" in refused
