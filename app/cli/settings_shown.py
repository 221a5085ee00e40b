"""`hone config`: every setting with its value, default and meaning."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Table

from app.cli.environment import SERVER, servers_of
from app.cli.words import plain, say
from app.settings import Settings

MASK = "********"
PASSWORD_IN_URL = re.compile(r"(?<=://)([^/@:]*):([^/@]*)@")


@dataclass(frozen=True)
class Setting:
    """One variable as it is shown; what is secret is masked already."""

    variable: str
    value: str
    default: str
    meaning: str


def shown(settings: Settings) -> Iterator[Setting]:
    """Yield every setting."""
    for name, field in Settings.model_fields.items():
        meaning = field.description or ""
        if name == "providers":
            named = dict(servers_of(settings.providers)) or {
                SERVER.format("NAME", "BASE_URL"): None
            }
            for variable, value in named.items():
                yield Setting(variable, _masked(value), "", meaning)
        else:
            value, default = _masked(getattr(settings, name)), _masked(field.default)
            yield Setting(_variable(name, field), value, default, meaning)


def show_settings(settings: Settings, console: Console) -> None:
    """Print them: a table on a terminal, the lines of a `.env` file elsewhere."""
    if not console.is_terminal:
        for setting in shown(settings):
            say(console, f"# {setting.meaning} Default: {setting.default or 'none'}")
            say(console, f"{setting.variable}={setting.value}\n")
        return
    table = Table("variable", "value", "default", "meaning")
    for setting in shown(settings):
        cells = (setting.variable, setting.value, setting.default, setting.meaning)
        table.add_row(*(plain(cell) for cell in cells))
    console.print(table)


def _variable(name: str, field: FieldInfo) -> str:
    """The name in api.md: the last of several, else the setting's own with the prefix."""
    choices = getattr(field.validation_alias, "choices", [])
    return str(choices[-1]) if choices else f"HONE_{name.upper()}"


def _masked(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    return "" if value is None else PASSWORD_IN_URL.sub(rf"\1:{MASK}@", str(value))
