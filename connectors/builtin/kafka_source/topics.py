"""Which topics are read, how they are called at the target, and who reads which partition. Pure."""

import re
from collections.abc import Iterable, Mapping

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.kafka_source import settings as names


class Names:
    """Names and regular expressions that match whole names."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises `ValueError` that names an expression which is none."""
        self._exact = set()
        self._patterns = []
        for entry in entries:
            self._exact.add(entry)
            try:
                self._patterns.append(re.compile(entry))
            except re.error as error:
                raise ValueError(f"{entry!r} is not a regular expression: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(pattern.fullmatch(name) for pattern in self._patterns)


class Renaming:
    """A topic's name at the target."""

    def __init__(self, policy: str, alias: str, separator: str) -> None:
        """policy: `identity` or `prefix`."""
        self._prefix = "" if policy == names.IDENTITY else alias + separator

    @classmethod
    def parse(cls, settings: ParsedConfig) -> "Renaming":
        """As a connector's settings want it."""
        policy = names.POLICIES[settings.string(names.POLICY)]
        return cls(policy, settings.string(names.SOURCE_ALIAS), settings.string(names.SEPARATOR))

    def target(self, topic: str) -> str:
        return self._prefix + topic

    def is_own(self, topic: str) -> bool:
        """Whether this may be a topic that the connector itself has written: not to be read again on one cluster."""
        return bool(self._prefix) and topic.startswith(self._prefix)


def choose_topics(found: Mapping[str, int], wanted: Names, excluded: Names, renaming: Renaming) -> dict[str, int]:
    """Of the topics that there are, with the number of their partitions, those to read; sorted."""
    return {
        topic: count
        for topic, count in sorted(found.items())
        if topic in wanted and topic not in excluded and not renaming.is_own(topic)
    }


def divide_partitions(topics: Mapping[str, int], max_tasks: int) -> list[list[tuple[str, int]]]:
    """Topic and partition for each task, dealt out in turn, so that a topic's partitions are spread; stable."""
    all_of_them = [(topic, partition) for topic, count in sorted(topics.items()) for partition in range(count)]
    tasks = min(max_tasks, len(all_of_them))
    return [all_of_them[number::tasks] for number in range(tasks)]


def starting_offset(where: str, delivered: int | None, first: int, end: int) -> tuple[int, str | None]:
    """Where to go on, and what is to be said about it.

    delivered: the last record's offset, None for none; first, end: of the partition now (`end` is one past the last).
    Raises `ValueError` where the partition ends before what was delivered: it was cut short, or made again.
    """
    if delivered is None:
        return first, None
    following = delivered + 1
    if following > end:
        raise ValueError(
            f"{where} ends at offset {end}, but was read up to {following} before: it was cut short, or deleted and "
            "created again. What it holds now may be other records under old offsets. To read it from its beginning, "
            "stop the connector, reset its offsets and resume it."
        )
    if following < first:
        return first, (
            f"{where} begins at offset {first} now; {first - following} offsets from {following} on have expired, or "
            "were deleted, before they were read. Reading goes on at the beginning."
        )
    return following, None


def check_other_offsets(
    assignment: str, group: str, delivered: Mapping[tuple[str, int], int | None], grouped: Mapping[tuple[str, int], int]
) -> None:
    """A connector whose assignment was changed must not go back to old offsets. Raises `ValueError`.

    delivered: the last record's offset by the source offsets; grouped: the next one's, by the consumer group.
    """
    for one, last in delivered.items():
        following, by_group = -1 if last is None else last + 1, grouped.get(one, -1)
        where = f"Partition {one[1]} of topic {one[0]}"
        if assignment == names.GROUP and -1 < by_group < following:
            raise ValueError(
                f"{where} was read up to {following} by the connector's source offsets, but consumer group {group} "
                f"stands at {by_group}: it would be read again from there. Stop the connector; move the group's "
                "offsets with kafka-consumer-groups, or reset the connector's where the group's are the right ones."
            )
        if assignment != names.GROUP and by_group > max(0, following):
            raise ValueError(
                f"{where} was read up to {by_group} by consumer group {group}, but the connector's source offsets "
                f"stand at {max(0, following)}: it would be read again from there. Stop the connector and set its "
                f"offset to {by_group - 1}, or delete the group with kafka-consumer-groups where the source offsets "
                "are right."
            )
