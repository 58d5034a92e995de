"""Which topics are read, their names at the target, and which task reads which partition. Pure."""

from collections.abc import Iterable, Mapping

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.kafka_source import settings as names
from ringfence.connectors.sdk.linear_patterns import LinearPattern


class Names:
    """Names and regular expressions that match whole names."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises `ValueError` that names an invalid expression."""
        self._exact = set()
        self._patterns: list[LinearPattern] = []
        for entry in entries:
            self._exact.add(entry)
            try:
                self._patterns.append(LinearPattern(entry))
            except ValueError as error:
                raise ValueError(f"{entry!r} is not a regular expression: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(pattern.fullmatch(name) for pattern in self._patterns)


class Renaming:
    """Maps a topic to its name at the target."""

    def __init__(self, policy: str, alias: str, separator: str) -> None:
        """policy: `identity` or `prefix`."""
        self._prefix = "" if policy == names.IDENTITY else alias + separator

    @classmethod
    def parse(cls, settings: ParsedConfig) -> "Renaming":
        """Return the renaming that a connector's settings define."""
        policy = names.POLICIES[settings.string(names.POLICY)]
        return cls(policy, settings.string(names.SOURCE_ALIAS), settings.string(names.SEPARATOR))

    def target(self, topic: str) -> str:
        return self._prefix + topic

    def is_own(self, topic: str) -> bool:
        """Return whether the connector may have written this topic: on one cluster, it must not be read."""
        return bool(self._prefix) and topic.startswith(self._prefix)


def choose_topics(topics: Mapping[str, int], included: Names, excluded: Names, renaming: Renaming) -> dict[str, int]:
    """Return the topics to read, sorted. topics: all topics, with the number of their partitions."""
    return {
        topic: count
        for topic, count in sorted(topics.items())
        if topic in included and topic not in excluded and not renaming.is_own(topic)
    }


def write_partitions(count: int) -> str:
    """Return the number of partitions with its noun."""
    return f"{count:,} partition{'' if count == 1 else 's'}"


def divide_partitions(topics: Mapping[str, int], max_tasks: int) -> list[list[tuple[str, int]]]:
    """Return topic and partition for each task, distributed in turn, so that a topic's partitions are
    spread. Stable.
    """
    all_of_them = [(topic, partition) for topic, count in sorted(topics.items()) for partition in range(count)]
    tasks = min(max_tasks, len(all_of_them))
    return [all_of_them[number::tasks] for number in range(tasks)]


def starting_offset(where: str, delivered: int | None, first: int, end: int) -> tuple[int, str | None]:
    """Return the offset to start at, and a message to log, or None.

    delivered: the last record's offset, None for none. first, end: of the partition now (`end` is one after the last).
    Raises `ValueError` if the partition ends before `delivered`: it was truncated, or created again.
    """
    if delivered is None:
        return first, None
    following = delivered + 1
    if following > end:
        raise ValueError(
            f"{where} ends at offset {end}, but was read up to {following} before: it was truncated, or deleted and "
            "created again. Its current records may be others with old offsets. To read it from its beginning, stop "
            "the connector, reset its offsets and resume it."
        )
    if following < first:
        return first, (
            f"{where} now begins at offset {first}; {first - following} offsets from {following} on expired or were "
            "deleted before they were read. Reading continues at the beginning."
        )
    return following, None


def check_other_offsets(
    assignment: str, group: str, delivered: Mapping[tuple[str, int], int | None], grouped: Mapping[tuple[str, int], int]
) -> None:
    """Prevent a connector whose assignment was changed from returning to old offsets. Raises `ValueError`.

    delivered: the last record's offset by the source offsets. grouped: the next one's, by the consumer group.
    """
    for one, last in delivered.items():
        following, by_group = -1 if last is None else last + 1, grouped.get(one, -1)
        where = f"Partition {one[1]} of topic {one[0]}"
        if assignment == names.GROUP and -1 < by_group < following:
            raise ValueError(
                f"{where} was read up to {following} by the connector's source offsets, but consumer group {group} is "
                f"at {by_group}: records from there on would be read again. Stop the connector; move the group's "
                "offsets with kafka-consumer-groups, or reset the connector's if the group's are correct."
            )
        if assignment != names.GROUP and by_group > max(0, following):
            raise ValueError(
                f"{where} was read up to {by_group} by consumer group {group}, but the connector's source offsets are "
                f"at {max(0, following)}: records from there on would be read again. Stop the connector and set its "
                f"offset to {by_group - 1}, or delete the group with kafka-consumer-groups if the source offsets are "
                "correct."
            )
