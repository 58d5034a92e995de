"""Celery's store of results in Redis, with notices that do not repeat the result.

Celery publishes the whole result to whoever waits. A web process reads it from its key, with a limit to its size, so
the notice only says that it is there.
"""

from typing import Any, Final

from celery.backends.redis import RedisBackend

from ringfence import messages

BACKEND: Final = f"{__name__}:NotifyingBackend+"
"""The prefix of the address of a Redis that stores results in this way."""


class NotifyingBackend(RedisBackend):  # type: ignore[misc]  # Celery has no types
    """Stores a result under its key, and publishes an empty message on the channel of that name."""

    def set(self, key: str, value: Any, expires: float | None = None, **retry_policy: Any) -> Any:
        """Store it; Celery repeats this after a broken connection."""

        def store() -> None:
            with self.client.pipeline() as pipe:
                pipe.setex(key, int(expires or messages.ANSWER_SECONDS), value)
                pipe.publish(key, b"")
                pipe.execute()

        return self.ensure(store, (), **retry_policy)
