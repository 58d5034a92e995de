"""The common part of requests about groups of any kind: their coordinators, and the meaning of errors."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, Final

from kafka.errors import IncompatibleBrokerVersion, KafkaError, for_code

from ringfence.fencing.errors import Conflict, Fatal, FencingError, Retriable
from ringfence.fencing.kafka.permission_probes import MOVING, NoCoordinator, Prober

NOT_THERE: Final = 69
"""Kafka's code: its coordinator knows no such group (GROUP_ID_NOT_FOUND)."""

_INHABITED: Final = 68
_DENIED: Final = 30
_CONCURRENT: Final = 51


class NotThere(FencingError):
    """There is no group with that name and of that kind."""


class GroupAdmin(Prober):
    """An admin with one principal. A "not the coordinator" response raises `NoCoordinator`, for `await_coordinator`."""

    too_old: ClassVar[str]
    """The reason for messages, if the brokers do not support a request."""

    permissions: ClassVar[str]
    """The permissions that the principal needs on a group."""

    def _coordinators(self, names: Collection[str], doing: str) -> dict[str, int]:
        """Return the node of each group's coordinator."""
        nodes: dict[str, int] = self._ask(self._admin.ask_coordinators(sorted(names)), doing)
        return nodes

    def _describe(self, names: Collection[str], request: Callable[[list[str]], Any], doing: str) -> Iterator[Any]:
        """Return the coordinators' descriptions of the groups that exist, with one request for each."""
        by_node: dict[int, list[str]] = {}
        for name, node in self._coordinators(names, doing).items():
            by_node.setdefault(node, []).append(name)
        requests = {str(node): request(sorted(some)) for node, some in by_node.items()}
        answers = self._send(requests, {str(node): node for node in by_node}, doing)
        for group in (group for answer in answers.values() for group in answer.groups):
            if group.error_code != NOT_THERE:
                self._check(group.error_code, group.error_message, f"{doing}, {group.group_id}")
                yield group

    def _send(self, requests: Mapping[str, Any], nodes: Mapping[str, int], doing: str) -> dict[str, Any]:
        """Send the requests, and return the responses by the requests' keys."""
        answers: dict[str, Any] = self._ask(self._all(requests, nodes), doing)
        if any(answer is None for answer in answers.values()):
            raise Fatal(f"{doing}: {self.too_old}")
        return answers

    def _ask(self, work: Any, doing: str) -> Any:
        async def call() -> Any:
            return await work

        try:
            return self._admin.run(call)
        except IncompatibleBrokerVersion as error:
            raise Fatal(f"{doing}: {self.too_old}") from error
        except KafkaError as error:
            code = int(getattr(error, "errno", None) or 0)
            if code > 0:
                self._check(code, None, doing)
            raise self._trouble(error) from error

    def _check(self, code: int, message: str | None, doing: str) -> None:
        if code == 0:
            return
        error = for_code(code)
        text = f"{doing}: {message or error.__name__}"
        if code == NOT_THERE:
            raise NotThere(text, error.__name__)
        if code == _INHABITED:
            raise Conflict(text, error.__name__)
        if code == _DENIED:
            raise Fatal(f"{text}. Grant the worker's principal {self.permissions}", error.__name__)
        if code in MOVING:
            self._admin.forget_coordinators()
            raise NoCoordinator(f"{text}. Ask again", error.__name__)
        if code == _CONCURRENT or getattr(error, "retriable", False):
            raise Retriable(f"{text}. Ask again", error.__name__)
        raise Fatal(text, error.__name__)
