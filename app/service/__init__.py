"""What the API can do, without HTTP: submit, look, watch, stop, change and erase."""

from app.service.admission import Admission
from app.service.model_roles import Casting
from app.service.selection import Selection
from app.service.service import Accepted, Service, StoredPage
from app.service.watching import Doors, News, Watching

__all__ = [
    "Accepted",
    "Admission",
    "Casting",
    "Doors",
    "News",
    "Selection",
    "Service",
    "StoredPage",
    "Watching",
]
