"""Providers whose models run in the process: no network, no key, no cost."""

from app.contract.providers import Provider

OFFLINE = Provider(name="offline", models=("editor",), writes=False, costs=False)
SCRIPTED = Provider(name="scripted", costs=False, is_offered=False)
