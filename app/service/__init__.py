"""What the API can do, without HTTP: submit, look, watch, stop, change and erase."""

from app.service.admission import Admission
from app.service.casting import Casting
from app.service.doors import Doors
from app.service.selecting import Selection
from app.service.service import Accepted, Service, StoredPage
from app.service.watching import News, Watching

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
