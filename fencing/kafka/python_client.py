"""kafka-python's client, for what librdkafka has no call for."""

import logging
from typing import Any

from kafka import KafkaAdminClient

if logging.getLogger("kafka").level == logging.NOTSET:
    logging.getLogger("kafka").setLevel(logging.WARNING)  # it tells of each connection that it opens and closes


class PythonClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """Closed by whoever made it. One that could not be made is closed before the error is raised.

    kafka-python starts its thread first and looks for a broker then, and leaves a thread behind that goes on looking
    for it, and complaining, until the end of the process.
    """

    def __init__(self, **configs: Any) -> None:
        try:
            super().__init__(**configs)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False  # else there is nothing to close in kafka-python's eyes
                self.close()
            raise

    def forget_coordinators(self) -> None:
        """Look for them again: kafka-python keeps each for ever, also where it is another broker by now."""
        self._manager.cluster._coordinators.clear()
