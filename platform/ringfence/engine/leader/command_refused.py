"""A command's refusal, ready for the API."""


class CommandRefused(Exception):
    """`status`: the HTTP status; `retry`: the same command may succeed a moment later.

    passing: nothing was changed, and only because of something that passes by itself (the leader is just changing): the
    sender repeats the command on its own, within the time that its user gave it.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False, passing: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry or passing
        self.passing = passing

    def answer(self) -> dict[str, object]:
        """The form in which it travels to the web process."""
        known = {"ok": False, "status": self.status, "message": self.message}
        return {**known, "retry": self.retry, "passing": self.passing}
