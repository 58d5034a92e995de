"""One error tree, split by what the caller does next. Messages say what happened, what is kept and what to do."""


class FencingError(Exception):
    """Root of the kernel's errors. `code` is the Kafka error's name where there is one, e.g. `PRODUCER_FENCED`."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Fenced(FencingError):
    """A newer producer epoch or group generation exists, or librdkafka says so. Touch nothing; ask the config topic."""


class Abortable(FencingError):
    """The open transaction cannot be committed any more: abort it, take a new producer and a new plugin instance."""


class UnknownOutcome(Abortable):
    """A commit may or may not have happened. A new producer's `init_transactions` settles it; then read the offsets."""


class Retriable(FencingError):
    """Nothing happened yet; the same call may succeed."""


class Fatal(FencingError):
    """No call on this client can succeed any more, and repeating it elsewhere would end the same way."""


class TopicLost(Fatal):
    """A topic that holds the cluster's state is gone, or another one of its name stands there. Fail closed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "TOPIC_LOST")


class NotLeader(FencingError):
    """This process does not lead (any more): stand down, the next leader takes over from the config topic."""


class Conflict(FencingError):
    """The state is no longer what the caller expected: read again and decide again."""


class Invalid(FencingError):
    """The input is refused; the message says why."""


class Unreadable(FencingError):
    """A record that must be understood is not (invariant 9). Says topic, offset and key."""


class CannotDecrypt(Unreadable):
    """A configuration is under a key that this process lacks. Says which, and what to do."""
