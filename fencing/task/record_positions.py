"""The positions of a transaction's records in Kafka, from delivery reports, for plugins with `wants_positions`."""

from ringfence.connectors.api import RecordPosition
from ringfence.fencing.kafka.producer_interface import Produce


class Positions:
    """The positions of one transaction, in the order of `produce`. Reports arrive on the thread that serves the
    producer.
    """

    def __init__(self) -> None:
        self._positions: list[RecordPosition | None] = []

    def noting(self, produce: Produce) -> Produce:
        """Return a `produce` that notes the position of each record that it accepts."""

        def produce_and_note(
            topic: str,
            value: object,
            key: object = None,
            partition: int = -1,
            callback: None = None,
            on_delivery: None = None,
            timestamp: int = 0,
            headers: object = None,
        ) -> None:
            positions = self._positions
            row = len(positions)

            def note(error: object, message: object) -> None:
                if error is None:
                    time = message.timestamp()[1]  # type: ignore[attr-defined]
                    positions[row] = (message.partition(), message.offset(), time)  # type: ignore[attr-defined]

            positions.append(None)
            try:
                produce(topic, value, key, partition, note, None, timestamp, headers)
            except BaseException:
                positions.pop()  # it was not accepted, and is tried again
                raise

        return produce_and_note

    def take(self) -> list[RecordPosition | None]:
        """Return the transaction's positions, complete once its commit is known, and begin the next transaction."""
        positions, self._positions = self._positions, []
        return positions
