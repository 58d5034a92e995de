"""Questions about a share group that change nothing: may this principal read it, is it somebody else's, is it allowed.

The same way as `ringfence.fencing.kafka.probes`: permissions are found by requests that the broker refuses for another
reason once it has checked them, and settings by asking it to validate them only.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import IncompatibleBrokerVersion, for_code
from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.admin import offsets_since
from ringfence.fencing.kafka.rights import Permission
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.share_groups import PREFIX, ShareGroupAdmin

FEATURE: Final = "share.version"

_GROUP: Final = 32  # the resource type of a group's settings
_SET: Final = 0
_DENIED: Final = frozenset({30, 31})
_NOBODY: Final = "nobody"
# The coordinator is away; there is no such member, generation or group, or it is one of another kind.
_CHECKED: Final = frozenset({0, 14, 15, 16, 22, 25, 27, 69})


class ShareProber(ShareGroupAdmin):
    """Asks with one principal, as `Prober` does."""

    def share_version(self) -> int:
        """The level of share.version that is finalised; 0: share groups are off, or not known to the brokers."""
        try:
            features: Mapping[str, Any] = self._run(self._admin.ask_features())
        except IncompatibleBrokerVersion:
            return 0
        _, level = features.get(FEATURE, {}).get("finalized", (0, 0))
        return int(level)

    def describe_group(self, name: str) -> Permission:
        """Describe, there or not."""
        request = FindCoordinatorRequest(key=name, key_type=0, max_version=3, min_version=1)
        return _judge(self._run(self._all({name: request}))[name])

    def read_group(self, name: str) -> Permission:
        """Read, there or not: by a heartbeat of a member that does not exist."""
        request = HeartbeatRequest(group_id=name, generation_id=0, member_id=_NOBODY, max_version=3)
        return _judge(self._run(self._all({name: request}))[name])

    def alter_group(self, name: str, settings: Mapping[str, str]) -> tuple[Permission, str]:
        """Whether it may set these of the group, without `share.` before their names; and what the broker has against
        them, "" where nothing.
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
        for seen in answer.responses if answer else ():
            if seen.error_code in _DENIED:
                return Permission.NO, ""
            problem = "" if seen.error_code == 0 else str(seen.error_message or for_code(seen.error_code).__name__)
            return Permission.YES, problem
        return Permission.UNKNOWN, ""

    def kind_of(self, name: str) -> str:
        """What kind of group it is (`share`, `consumer`, `classic`); "" where there is none that may be described."""
        rows = self._ask(self._admin.ask_groups(), "Listing groups")
        return next((str(row["group_type"]).lower() for row in rows if row["group_id"] == name), "")


def find_overdue(
    connection: Connection, waiting: Mapping[tuple[str, int], int], since_ms: int
) -> list[tuple[str, int]]:
    """Topic partitions whose offset is of a time before `since_ms`. Raises `FencingError`."""
    found = []
    for topic in sorted({topic for topic, _ in waiting}):
        numbers = [number for name, number in waiting if name == topic]
        first = offsets_since(connection, topic, numbers, since_ms, Deadline.after(5))
        found += [(topic, one) for one in numbers if first[one] < 0 or waiting[topic, one] < first[one]]
    return found


def _judge(answer: Any) -> Permission:
    if answer is None:
        return Permission.UNKNOWN
    if answer.error_code in _DENIED:
        return Permission.NO
    return Permission.YES if answer.error_code in _CHECKED else Permission.UNKNOWN
