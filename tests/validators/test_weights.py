"""What a finding counts against a draft: by distance to a limit, and more if it hides others."""

from app.contract.validators import AnyValidator
from app.contract.validators.json import JsonSchemaValidator
from app.contract.validators.sql import SqlValidator
from app.contract.validators.text import LengthValidator
from workers.validators.running import compile_validators


async def weight(validator: AnyValidator, draft: str) -> float:
    """Return what all findings on a draft weigh, as they leave the port."""
    return sum(it.weight for it in await compile_validators([validator]).run(draft))


async def test_a_draft_that_is_farther_from_its_limit_weighs_more() -> None:
    at_most = LengthValidator(kind="length", max_words=10)
    weights = [await weight(at_most, "word " * count) for count in (10, 11, 15, 20, 500)]
    assert weights == [0, 1.1, 1.5, 2, 2]


async def test_json_that_cannot_be_read_weighs_more_than_all_that_is_wrong_elsewhere() -> None:
    names = [f"n{it}" for it in range(30)]
    schema = JsonSchemaValidator(kind="json_schema", schema={"required": names})
    assert await weight(schema, "{") > await weight(schema, "{}") == 20


async def test_sql_that_cannot_be_parsed_weighs_more_than_unknown_names() -> None:
    sql = SqlValidator(kind="sql", tables={"orders": ("id",)})
    unknown = await weight(sql, "SELECT a, b, c FROM orders")
    assert await weight(sql, "SELECT FROM WHERE") > unknown == 3
