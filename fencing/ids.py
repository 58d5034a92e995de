"""Names and ids, and how they are written as strings in Kafka."""

from typing import NamedTuple, NewType

ConnectorName = NewType("ConnectorName", str)
WorkerId = NewType("WorkerId", str)
Incarnation = NewType("Incarnation", str)
"""One start of a worker process. A restarted worker keeps its worker id and gets a new incarnation."""

Generation = NewType("Generation", int)
"""The config-topic offset of a connector's newest commit record. Compared by equality only."""

NO_GENERATION = Generation(-1)
"""Before the first commit record."""

NOBODY = Incarnation("")
"""The incarnation of no worker."""

_TASK_DIGITS = 9


class TaskId(NamedTuple):
    """A task of a connector; `str()` gives Kafka Connect's form, `name-0`.

    A tuple, because the leader looks up and sorts all of them again and again: its comparisons and hashes are C.
    """

    connector: ConnectorName
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


def task_transactional_id(group_id: str, task: TaskId) -> str:
    """`${group.id}-${connector}-${task}` (KIP-618, "Offset (and record) writes")."""
    return f"{group_id}-{task.connector}-{task.task}"


def parse_task(text: str) -> TaskId | None:
    """The inverse of `str(TaskId)`; None for anything else."""
    name, _, number = text.rpartition("-")
    readable = name and number.isascii() and number.isdigit() and len(number) <= _TASK_DIGITS
    return TaskId(ConnectorName(name), int(number)) if readable else None


def parse_task_transactional_id(group_id: str, transactional_id: str) -> TaskId | None:
    """The inverse of `task_transactional_id`; None for an id of another group, or not of a task."""
    task = parse_task(transactional_id.removeprefix(f"{group_id}-"))
    return task if task and task_transactional_id(group_id, task) == transactional_id else None


def replay_transactional_id(group_id: str, connector: ConnectorName) -> str:
    """`${group.id}-${connector}-replay`. It is never a task's id: those end with a number."""
    return f"{group_id}-{connector}-replay"


def leader_transactional_id(group_id: str) -> str:
    """`connect-cluster-${group.id}` (KIP-618, "Leader access to config topic")."""
    return f"connect-cluster-{group_id}"


def member_client_id(worker: WorkerId, incarnation: Incarnation) -> str:
    """The client id with which a worker joins the group. It links the group member to its `worker-<id>` record."""
    return f"{worker}@{incarnation}"


def parse_member_client_id(client_id: str) -> tuple[WorkerId, Incarnation] | None:
    """The inverse of `member_client_id`; None for a client that is not a Ringfence worker."""
    worker, at, incarnation = client_id.rpartition("@")
    return (WorkerId(worker), Incarnation(incarnation)) if at and worker and incarnation else None
