"""The events topic: reports of tasks, workers and the leader. They are short-lived, for people; no decision uses them.

Key: the connector's name (empty for the cluster's own events). Value: a JSON object: `type`, `time_ms`, `connector`,
`request` (the id of the request that led to it, where it is known), and by type:

- `progress` (a task, at most once a second, cumulative since the attempt's start): task, generation, attempt, worker,
  records (sent), committed ([records, skipped, dead letters] whose source offsets are committed), bytes, transactions,
  aborted, aborted_records, errors, open_records (in the open transaction), open_since_ms (0: none open),
  last_poll_ms (last non-empty poll), last_commit_ms, commit_ms (duration of the last commit), transactional_id,
  producer_id, epoch;
  polled (records before transforms), retries (polls that asked to be called again), record_errors, record_failures,
  records_skipped, errors_logged (both tolerated ones), dead_letters (records sent to the dead letter topic),
  commit_failures, last_error_ms; running_ms, paused_ms and life_ms (time in these states, and in all); and of the
  last half to whole minute {min, max, sum, count} of poll_ms and batch_records (non-empty polls), active_records
  (in open transactions), commit_times_ms, commit_failed (0 or 1), transaction_records (of committed ones); held: of a
  share group's records those that the task has at this moment, [[topic, partition, first, last]]; every few
  seconds gauges, which the plugin measures: [{name, value, unit, description, labels, limit, remedy}]; traced: samples
  of the transactions since the last report, if traces are exported: [{outcome (`committed`, `aborted`, `failed`,
  `unknown`), began_ms, commit_ms (when its commit began, 0: never), ended_ms, records, producer_id, epoch, parent,
  links (trace contexts)}];
- `task` (a change of a task's stage): task, generation, attempt, worker, stage, message, and transactional_id,
  producer_id, epoch of the transactions that it writes, once they are known;
- `round` (the leader): generation, stage (`graceful stop`, `fencing`, `done`, `failed`, `cancelled`), tasks, fenced
  (list of {"id", "producer_id", "epoch"}), credentials (whose fenced them), ms, message;
- `log` (a line that a connector's task logged, or a worker about it): level, logger, message, and task, generation,
  attempt, worker where it has them;
- `leader`: worker, stage (`elected`, `stood down`), message;
- `command` (the leader): kind, outcome, message, offset, user.
"""

import json
from collections.abc import Mapping
from typing import cast

from ringfence.connectors.sdk.names import is_long

Event = Mapping[str, object]


def encode(event: Event) -> tuple[bytes, bytes]:
    """Return key and value of an event."""
    value = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=str)
    return str(event.get("connector", "")).encode(), value.encode()


def decode(value: bytes | None) -> Event | None:
    """Return an event; None if the value is not a JSON object with a type, or names a connector that cannot exist."""
    try:
        event = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str) or is_long(str(event.get("connector"))):
        return None
    return cast(Event, event)
