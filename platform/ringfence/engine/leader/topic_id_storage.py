"""Stores the ids of the cluster's topics in three of them, so that the others show the loss of any one."""

from ringfence.engine.leader.job_writing import TRY_SECONDS
from ringfence.fencing.clock import Deadline
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import StatusState
from ringfence.fencing.topics.topic_ids import TopicIds, dumps, offsets_key
from ringfence.worker_config import WorkerConfig


def remember_topics(ids: TopicIds, config: WorkerConfig, term: Term, status: StatusState, reporter: Reporter) -> None:
    """Write the ids to each topic that has older ones or none."""
    stored_ids = term.state.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        copy = TopicRecord(config.offsets_topic, offsets_key(config.group_id), dumps(ids))
        term.write(lambda _state: [ids, copy], Deadline.after(TRY_SECONDS))
    stored_ids = status.topic_ids
    if stored_ids is None or stored_ids.version < ids.version:
        reporter.status(ids)
