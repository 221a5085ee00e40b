"""The console, a page for people: `static/` has its script, `src/` what that is built from."""

from app.console.pages import router
from app.console.sessions import router as sessions

__all__ = ["router", "sessions"]
