"""What is raised when a validator itself fails: the draft was not judged, so the step fails."""


class ValidatorUnavailable(Exception):
    """The validator could not be run, whatever the draft; `detail` says why and what to change."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
