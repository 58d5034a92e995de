"""A command's refusal, ready for the API."""


class Refusal(Exception):
    """`status`: the HTTP status; `retry`: the same command may succeed a moment later."""

    def __init__(self, status: int, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry

    def answer(self) -> dict[str, object]:
        """The form in which it travels to the web process."""
        return {"ok": False, "status": self.status, "message": self.message, "retry": self.retry}
