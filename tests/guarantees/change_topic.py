"""What Debezium's topic of one table holds, row by row."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog


class ChangeTopic:
    """The table's topic, with one partition."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name
        create_topics(connection, [TopicSpec(name)], Deadline.after(30))
        settings = {"bootstrap.servers": connection.bootstrap, "isolation.level": "read_uncommitted"}
        self._consumer = Consumer({**settings, "group.id": self.name})

    def end(self) -> int:
        """Where it ends, with what is not committed."""
        return int(self._consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=30)[1])

    def reaches(self, end: int) -> bool:
        return self.end() >= end

    def is_empty(self) -> bool:
        """Whether a read_committed reader gets nothing now. The last transaction may still be open."""
        reader = Consumer({"bootstrap.servers": self._connection.bootstrap, "group.id": self.name})
        try:
            reader.assign([TopicPartition(self.name, 0, 0)])
            return reader.consume(1, timeout=2) == []
        finally:
            reader.close()

    def bodies(self) -> list[dict[str, Any]]:
        """Debezium's envelopes, as a read_committed reader sees them."""
        log = TopicLog(self._connection, self.name)
        try:
            return [json.loads(record.value) for record in log.read_to_end(Deadline.after(60)) if record.value]
        finally:
            log.close()

    def rows(self) -> dict[int, Counter[tuple[str, int]]]:
        """What a read_committed reader sees of each row: operation and the value afterwards, and how often."""
        found: dict[int, Counter[tuple[str, int]]] = {}
        for body in self.bodies():
            found.setdefault(body["after"]["id"], Counter())[(body["op"], body["after"]["n"])] += 1
        return found

    def holds(self, rows: Mapping[int, int]) -> bool:
        """Whether the newest value of each row has come."""
        seen = self.rows()
        return all(max((n for _, n in seen.get(row, ())), default=-1) == newest for row, newest in rows.items())

    def close(self) -> None:
        self._consumer.close()


def is_exact(seen: Counter[tuple[str, int]], newest: int) -> bool:
    """One beginning (read or created), and each later change once."""
    (first, *more) = [each for each in seen if each[0] in "rc"] or [("", -1)]
    changes = Counter({("u", value): 1 for value in range(first[1] + 1, newest + 1)})
    return not more and first[1] >= 0 and seen == Counter([first]) + changes


def check_wrong(wrong: Mapping[int, object], *, exact: bool) -> None:
    """Check the rows that are not exact after an interrupted snapshot. exact: with the setting that makes it whole."""
    if exact:
        assert wrong == {}, "a change is missing, or there twice"
    else:
        assert len(wrong) > 1000, "without the setting rows come twice: the test sees them"
