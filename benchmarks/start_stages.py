"""The time of each step of a start: from events of the leader and the task, by this machine's clock."""

from collections.abc import Mapping, Sequence
from statistics import median

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.events import decode
from ringfence.fencing.topics.topic_log import Isolation, TopicLog

Start = tuple[str, float]
"""A connector's name, and when it was requested (seconds since the epoch)."""

STEPS = {
    "validation, and the configuration in the config topic": "created",
    "placement, Spark job, process of the task": "reading the config topic",
    "reading the config topic": "initialising the producer",
    "initialising the producer": "reading source offsets",
    "reading source offsets": "starting the plugin",
    "starting the plugin": "looking for hanging transactions",
    "looking for hanging transactions": "running",
}
"""Each step, and the event that ends it; it begins at the end of the previous step."""


def read(connection: Connection, topic: str, starts: Sequence[Start]) -> dict[str, float]:
    """Return the median of each step in milliseconds, without steps that were not reported."""
    ended: dict[str, dict[str, float]] = {name: {} for name, _ in starts}
    log = TopicLog(connection, topic, isolation=Isolation.UNCOMMITTED)
    try:
        for record in log.read_to_end(Deadline.after(60)):
            event = decode(record.value)
            if event is None or (times := ended.get(str(event.get("connector")))) is None:
                continue
            at = float(str(event["time_ms"]))
            if event["type"] == "command" and event.get("kind") == "create":
                times.setdefault("created", at)
            elif event["type"] == "task":
                times.setdefault(str(event.get("stage")), at)
    finally:
        log.close()
    return medians([durations(start_s * 1000, ended[name]) for name, start_s in starts])


def durations(asked_ms: float, ended: Mapping[str, float]) -> dict[str, float]:
    """Return the durations. Pure. ended: when each event was reported. A step without an event is part of
    the next one.
    """
    took: dict[str, float] = {}
    before = asked_ms
    for step, event in STEPS.items():
        if event in ended:
            took[step] = max(0.0, ended[event] - before)
            before = max(before, ended[event])
    return took


def medians(durations_of_starts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each step, over those starts that have it."""
    return {
        step: median(times) for step in STEPS if (times := [each[step] for each in durations_of_starts if step in each])
    }


def table(columns: Mapping[str, Mapping[str, float]]) -> str:
    """Return the steps as rows, in milliseconds."""
    rows = ["| step | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for step in STEPS:
        cells = [f"{steps[step]:.0f} ms" if step in steps else "" for steps in columns.values()]
        rows.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(rows)
