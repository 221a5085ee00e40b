"""Values that are right by themselves and do not go together."""


class Misfit(ValueError):
    """What does not fit; `pointer` (RFC 6901, from where it is raised) says what to change."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer
