"""kafka-python's client, for what librdkafka has no call for.

kafka-python has no public way to send a request of one's own to a broker of one's own choice. All that is used of its
private parts is in this module; so the minor version is pinned, and `tests/fencing/test_python_client.py` is a canary.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.admin._transactions import AbortTransactionSpec as AbortTransactionSpec

if logging.getLogger("kafka").level == logging.NOTSET:
    logging.getLogger("kafka").setLevel(logging.WARNING)  # it tells of each connection that it opens and closes


_T = TypeVar("_T")


class PythonClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """Closed by whoever made it. One that could not be made is closed before the error is raised.

    kafka-python starts its thread first and looks for a broker then, and leaves a thread behind that goes on looking
    for it, and complaining, until the end of the process.
    """

    def __init__(self, **configs: Any) -> None:
        try:
            super().__init__(**configs)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False  # else there is nothing to close in kafka-python's eyes
                self.close()
            raise

    def forget_coordinators(self) -> None:
        """Look for them again: kafka-python keeps each for ever, also where it is another broker by now."""
        self._manager.cluster._coordinators.clear()

    def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Carry out on kafka-python's thread, and wait for it. Raises `KafkaError`."""
        answer: _T = self._manager.run(work)
        return answer

    def send(self, request: object, node_id: int | None = None) -> Awaitable[Any]:
        """Of work that runs: the answer of a broker, None for any."""
        answer: Awaitable[Any] = self._manager.send(request, node_id=node_id)
        return answer

    def ask_coordinators(self, keys: Collection[str], **kind: object) -> Awaitable[dict[str, int]]:
        """Of work that runs: the node of each group's coordinator; with `key_type` of each transactional id's."""
        found: Awaitable[dict[str, int]] = self._find_coordinator_ids(list(keys), **kind)
        return found

    def ask_groups(self, **filters: object) -> Awaitable[Any]:
        """Of work that runs: the groups of every broker."""
        found: Awaitable[Any] = self._async_list_groups(**filters)
        return found

    def ask_group_offsets(self, groups: Mapping[str, None]) -> Awaitable[Any]:
        """Of work that runs: what the groups have committed."""
        found: Awaitable[Any] = self._async_list_group_offsets(groups)
        return found

    def ask_features(self) -> Awaitable[Mapping[str, Any]]:
        """Of work that runs: the cluster's features."""
        found: Awaitable[Mapping[str, Any]] = self._async_describe_features()
        return found

    @property
    def broker_ids(self) -> list[int]:
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    @property
    def broker_version(self) -> tuple[int, ...]:
        """As far as it can be told: the newest that speaks as this one does."""
        return tuple(int(part) for part in self._manager.broker_version_data.broker_version)

    def newest_version_of(self, request: type) -> int:
        """That client and broker both have. Raises `IncompatibleBrokerVersion`."""
        return int(self._manager.broker_version_data.api_version(request))
