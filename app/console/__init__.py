"""The console, a page for people: `static/` has its script, `src/` what that is built from."""

from app.console.pages import router

__all__ = ["router"]
