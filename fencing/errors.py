"""The kernel's errors, divided by what the caller does next. Messages say what happened, what is kept, and
what to do.
"""


class FencingError(Exception):
    """The root of the kernel's errors. `code` is the name of the Kafka error, if any, e.g. `PRODUCER_FENCED`."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Fenced(FencingError):
    """A newer producer epoch or group generation exists, or librdkafka says so. Change nothing; read the
    config topic.
    """


class Abortable(FencingError):
    """The open transaction can no longer be committed. Abort it, and start with a new producer and plugin instance."""


class UnknownOutcome(Abortable):
    """A commit may or may not have happened. Settle it with a new producer's `init`, then read the offsets."""


class Retriable(FencingError):
    """Nothing has happened yet; the same call may succeed later."""


class Fatal(FencingError):
    """No call on this client can succeed any more, and another client would fail in the same way."""


class TopicLost(Fatal):
    """A topic that holds the cluster's state is gone, or was replaced by another of its name. Fail closed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "TOPIC_LOST")


class NotLeader(FencingError):
    """This process is not the leader, or no longer. Resign; the next leader takes over from the config topic."""


class Conflict(FencingError):
    """The state is no longer what the caller expected. Read it again and decide again."""


class Invalid(FencingError):
    """The input is refused. The message says why."""


class Unreadable(FencingError):
    """A record that must be understood cannot be read (invariant 9). The message names its topic, offset and key."""


class CannotDecrypt(Unreadable):
    """A configuration is encrypted with a key that this process lacks. The message names the key, and the remedy."""
