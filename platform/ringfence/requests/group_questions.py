"""The questions of a web process to a worker about the consumer groups of the workers' cluster."""

from dataclasses import dataclass

from ringfence.requests.question import READ_EARLY, Json, Question


@dataclass(frozen=True)
class ListConsumerGroups(Question[Json]):
    """List the groups whose name contains this text, with their lag in each topic; `topic`: only those that read it."""

    name = "consumer_groups"
    seconds = 13.0
    early = READ_EARLY
    search: str = ""
    topic: str = ""


@dataclass(frozen=True)
class DescribeConsumerGroup(Question[Json]):
    """Return its members, its offsets and the transactions that it waits for. A missing group is refused with 404."""

    name = "consumer_group"
    seconds = 13.0
    early = READ_EARLY
    group: str
