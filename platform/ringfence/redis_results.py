"""Celery's store of results in Redis, for a sender that waits in one request and reads in another.

Celery publishes the whole result to whoever waits. A web process reads it from its key, with a limit to its size. What
it waits for is a list beside that key, so it needs no subscription, and no connection, of its own.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from celery.backends.redis import RedisBackend, SentinelBackend
from redis import RedisError

from ringfence import answer_ends, messages, redis_client
from ringfence.answer_ends import NOTED, Place, ends_in

log = logging.getLogger(__name__)

_ends: ContextVar[tuple[str, Mapping[Place, int]] | None] = ContextVar("ends to write with the answer", default=None)


def backend(url: str) -> str:
    """Return Celery's address of the Redis at `url` as a store of results of this kind."""
    kind: type[NotifyingBackend] = NotifyingBackend
    if redis_client.is_sentinel(url):
        kind = SentinelNotifyingBackend
    elif redis_client.is_cluster(url):
        kind = ClusterNotifyingBackend
    return f"{__name__}:{kind.__name__}+{url}"


def notice_key(key: str) -> str:
    """Return the key of the list that gets an entry when the result under `key` is stored."""
    return f"{key}.there"


def write_ends_with(answer: Mapping[str, object], account: str) -> dict[str, object]:
    """Return this thread's answer to a command. What it has written is noted for the account as the answer is stored.

    For the other web processes, and before the sender has the answer, so that it need not write it.
    """
    ends = ends_in(answer)
    _ends.set((account, ends))
    return {**answer, NOTED: bool(ends)}


class NotifyingBackend(RedisBackend):  # type: ignore[misc]  # Celery has no types
    """Stores a result under its key, and a notice beside it."""

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **_: Any
    ) -> Any:
        """Store it, without a look at what is stored: a message runs once (`messages.BoundTask`)."""
        encoded = self.encode_result(result, state)
        meta = {"status": state, "result": encoded, "traceback": traceback, "children": [], "task_id": task_id}
        self.set(self.get_key_for_task(task_id), self.encode(meta))
        return encoded

    def set(self, key: str | bytes, value: Any, expires: float | None = None, **retry_policy: Any) -> Any:
        """Store it; Celery repeats this after a broken connection."""
        seconds = int(expires or messages.ANSWER_SECONDS)
        notice = notice_key(key if isinstance(key, str) else key.decode())
        account, ends = _ends.get() or ("", {})
        _ends.set(None)

        def store() -> None:
            # Not a transaction, which would be more work: the notice comes last. A second one, if this is repeated, is
            # looked at by nobody. An answer does not fail for its ends, whose key somebody may have taken.
            with self.client.pipeline(transaction=False) as pipe:
                pipe.setex(key, seconds, value)
                if ends:
                    answer_ends.write(pipe, account, ends)
                pipe.rpush(notice, b"")
                pipe.expire(notice, seconds)
                results = pipe.execute(raise_on_error=False)
            for result in (results[0], *results[-2:]):
                if isinstance(result, RedisError):
                    raise result
            if errors := [each for each in results if isinstance(each, RedisError)]:
                log.warning("Other web processes do not learn what a command has written: %s", errors[0])

        return self.ensure(store, (), **retry_policy)


class SentinelNotifyingBackend(NotifyingBackend, SentinelBackend):  # type: ignore[misc]  # Celery has no types
    """The same, at the primary that Sentinel names."""

    connection_class: type[redis_client.PrimaryConnection] = redis_client.PrimaryConnection

    def _get_pool(self, **params: Any) -> Any:
        primary = self._get_sentinel_instance(**params).master_for(
            self._transport_options["master_name"], connection_class=self.connection_class
        )
        return primary.connection_pool


class ClusterNotifyingBackend(SentinelNotifyingBackend):
    """The same, at the server of a cluster that has our keys."""

    connection_class = redis_client.OwnerConnection

    def _get_sentinel_instance(self, **params: Any) -> Any:
        servers, login = redis_client.servers_of(self.url)
        for name in ("hosts", "username", "password", "db"):
            params.pop(name, None)
        options = self._transport_options["sentinel_kwargs"]
        return redis_client.ClusterNodes(servers, sentinel_kwargs=options, **params, **login)  # type: ignore[no-untyped-call]
