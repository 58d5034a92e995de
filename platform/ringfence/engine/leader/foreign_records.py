"""Reports records of the config topic that were not written by a leader of this cluster."""

import logging
from collections.abc import Callable, Iterable, Sequence

from ringfence.encryption import KeyringSigner
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.config_records import connector_of
from ringfence.fencing.topics.leader_stamps import Foreign, Stamper, StampWatch
from ringfence.fencing.topics.reporter import Reporter

log = logging.getLogger(__name__)


class ForeignRecords:
    """Reports each record once for each worker that leads, since reports are not stored."""

    def __init__(self, config_topic: str, reporter: Reporter) -> None:
        self._topic = config_topic
        self._reporter = reporter
        self._reported_offsets: set[int] = set()

    def watch_term(self, writer: str) -> tuple[Stamper, Callable[[Sequence[LogRecord]], None]]:
        """Return the stamper for the records of a new term, and a function to call with all records that it reads."""
        signer = KeyringSigner()
        watch = StampWatch(self._topic, signer)
        return Stamper(signer, writer), lambda records: self._tell(watch.look(records))

    def _tell(self, records: Iterable[Foreign]) -> None:
        for one in records:
            if one.offset in self._reported_offsets:
                continue
            self._reported_offsets.add(one.offset)
            text = (
                f"Topic {self._topic}, offset {one.offset}, key {one.key}: no leader of this cluster wrote that "
                f"record ({one.why}). It is used nevertheless. Check who may write to the topic, and correct the "
                "record's effect"
            )
            log.error("%s", text)
            connector = connector_of(one.key.encode()) or ""
            self._reporter.event("foreign", connector, offset=one.offset, key=one.key, message=text)
