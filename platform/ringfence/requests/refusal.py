"""The refusal of a request, in place of its answer."""

from collections.abc import Mapping


class Refusal(Exception):
    """The request was not carried out, or its outcome is unknown. `status` is the HTTP status, the message is for
    people.

    retry: the same request may succeed soon; passing: and nothing was changed, so the sender repeats it itself.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False, passing: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry or passing
        self.passing = passing

    def answer(self) -> dict[str, object]:
        """Return the JSON that is sent to the web process."""
        fields = {"ok": False, "status": self.status, "message": self.message}
        return {**fields, "retry": self.retry, "passing": self.passing}

    @staticmethod
    def parse(answer: Mapping[str, object]) -> "Refusal":
        """Parse a worker's answer that is not ok."""
        status = answer.get("status")
        return Refusal(
            status if isinstance(status, int) else 500,
            str(answer.get("message") or ""),
            retry=bool(answer.get("retry")),
            passing=bool(answer.get("passing")),
        )
