"""Probes a share group without side effects: permissions, the type of the group, and whether settings are allowed.

As in `fencing.kafka.permission_probes`, permissions are found with requests that the broker refuses for another reason
after it has checked them. Settings are only validated by the broker.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.permissions import Permission
from ringfence.fencing.kafka.share_groups import PREFIX, ShareGroupAdmin
from ringfence.fencing.kafka.topic_offsets import offsets_since

FEATURE: Final = "share.version"

_GROUP: Final = 32  # the resource type of a group's settings
_SET: Final = 0
_DENIED: Final = frozenset({30, 31})
_NOBODY: Final = "nobody"
# The coordinator is away; there is no such member, generation or group, or it is one of another kind.
_CHECKED: Final = frozenset({0, 14, 15, 16, 22, 25, 27, 69})


class ShareProber(ShareGroupAdmin):
    """A prober with one principal, like `Prober`."""

    def describe_group(self, name: str) -> Permission:
        """Return the permission Describe on a group, which need not exist."""
        request = FindCoordinatorRequest(key=name, key_type=0, max_version=3, min_version=1)
        return _judge(self._run(self._all({name: request}))[name])

    def read_group(self, name: str) -> Permission:
        """Return the permission Read on a group, which need not exist. It sends a heartbeat of an unknown member."""
        request = HeartbeatRequest(group_id=name, generation_id=0, member_id=_NOBODY, max_version=3)
        return _judge(self._run(self._all({name: request}))[name])

    def alter_group(self, name: str, settings: Mapping[str, str]) -> tuple[Permission, str]:
        """Return the permission to set these settings, named without `share.`, and the broker's objection to their
        values, "" for none.
        """
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=f"{PREFIX}{key}", config_operation=_SET, value=value)
            for key, value in settings.items()
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=_GROUP, resource_name=name, configs=configs)], validate_only=True
        )
        answer = self._run(self._all({name: request}))[name]
        for result in answer.responses if answer else ():
            if result.error_code in _DENIED:
                return Permission.NO, ""
            problem = (
                "" if result.error_code == 0 else str(result.error_message or for_code(result.error_code).__name__)
            )
            return Permission.YES, problem
        return Permission.UNKNOWN, ""

    def kind_of(self, name: str) -> str:
        """Return the type of the group (`share`, `consumer`, `classic`); "" if there is none that may be described."""
        rows = self._ask(self._admin.ask_groups(), "Listing groups")
        return next((str(row["group_type"]).lower() for row in rows if row["group_id"] == name), "")


def find_overdue(
    connection: Connection, waiting: Mapping[tuple[str, int], int], since_ms: int
) -> list[tuple[str, int]]:
    """Return the partitions in which the record at this offset is older than `since_ms`. Raises `FencingError`."""
    partitions = []
    for topic in sorted({topic for topic, _ in waiting}):
        numbers = [number for name, number in waiting if name == topic]
        first = offsets_since(connection, topic, numbers, since_ms, Deadline.after(5))
        partitions += [(topic, one) for one in numbers if first[one] < 0 or waiting[topic, one] < first[one]]
    return partitions


def _judge(answer: Any) -> Permission:
    if answer is None:
        return Permission.UNKNOWN
    if answer.error_code in _DENIED:
        return Permission.NO
    return Permission.YES if answer.error_code in _CHECKED else Permission.UNKNOWN
