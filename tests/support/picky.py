"""A connector some of whose records no converter takes."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Plain, Stage


class Picky(Plain):
    """Takes no number that seven divides."""

    def __init__(self) -> None:
        super().__init__(raw=False)

    def value(self, topic: str, value: object, schema: object = None) -> bytes | None:
        number = super().value(topic, value)
        if number is not None and int(number) % 7 == 0:
            raise ValueError("seven divides it")
        return number


def numbers(stage: Stage, topic: str) -> list[int]:
    """What a read_committed reader sees."""
    log = TopicLog(stage.connection, topic)
    try:
        return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()
