"""A refusal of the web process itself."""


class LimitExceeded(Exception):
    """An answer of the web process itself. retry_after: in seconds; 0: the header is not sent. body_read: the body has
    arrived, so the sender keeps its connection.
    """

    def __init__(self, status: int, text: str, retry_after: int = 0, *, body_read: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after
        self.body_read = body_read
