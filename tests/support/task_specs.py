"""The specification of one task."""

from ringfence.fencing.ids import Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.topic_ids import Topics
from tests.support.cluster_states import C

PLACEMENT = Placement(WorkerId("w"), Incarnation("i"), 2, Generation(2))


SPEC = TaskSpec(
    Connection("b:9092", {"sasl.password": "secret"}), "g", Topics("c", "o", "s", "e"), TaskId(C, 0), PLACEMENT,
    "a.B", {"name": "c", "password": "secret"}, {"n": "0"}, {"offset.flush.interval.ms": "1"},
)  # fmt: skip
