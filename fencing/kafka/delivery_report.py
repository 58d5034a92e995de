"""The delivery report of a record: its offset, or the error."""

from confluent_kafka import KafkaError, Message

from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.error_translation import translate


class Delivery:
    """The `on_delivery` callback of one record. offset, error: None until it is delivered or has failed."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self.offset: int | None = None
        self.error: FencingError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = translate(error, self._doing)
        else:
            self.offset = message.offset()
