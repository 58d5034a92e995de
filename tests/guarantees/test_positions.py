"""Where committed records are, for plugins that ask: what the delivery reports said."""

from collections.abc import Sequence

from ringfence.connectors.api import RecordPosition
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.broker import Broker
from tests.support.names import unique


class Asking(Counting):
    """Remembers what it is told."""

    wants_positions = True
    told: list[RecordPosition | None]

    def note_positions(self, positions: Sequence[RecordPosition | None]) -> None:
        Asking.told += positions


def test_a_plugin_is_told_where_each_committed_record_is(broker: Broker) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("positions"))
    Asking.told = []
    try:
        stage.configure({"topic": stage.data})
        stage.count()
        script = Script(limit=120, batch=50)
        attempt = stage.start(script, {"topic": stage.data}, kind=Asking)
        attempt.finish_after(120)
        log = TopicLog(stage.connection, stage.data)
        offsets = [record.offset for record in log.read_to_end(Deadline.after(30))]
        log.close()
        assert len(offsets) == 120
        assert [found[1] for found in Asking.told if found is not None] == offsets, "markers take offsets, too"
    finally:
        stage.close()
