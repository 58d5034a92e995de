"""What a web process asks a worker about the consumer groups of the workers' cluster."""

from dataclasses import dataclass

from ringfence.requests.question import READ_EARLY, Json, Question


@dataclass(frozen=True)
class ListConsumerGroups(Question[Json]):
    """Every group whose name has this text, with its lag in each topic; `topic`: only those that read it."""

    name = "consumer_groups"
    seconds = 13.0
    early = READ_EARLY
    search: str = ""
    topic: str = ""


@dataclass(frozen=True)
class DescribeConsumerGroup(Question[Json]):
    """Its members, its offsets and the transactions that it waits for. Refused with 404 where it is not there."""

    name = "consumer_group"
    seconds = 13.0
    early = READ_EARLY
    group: str
