"""The workers' last reports about share groups, kept in the database. Pages show them if Kafka does not answer."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ringfence import dispatch
from ringfence.api.share_groups.readers import Readers, find_readers
from ringfence.dispatch import Refusal
from ringfence.engine.questions import DescribeShareGroup, ListShareGroups
from ringfence.history.models import ShareGroupAnswer

LIST = ""
KEPT = 500
_FRESH_MS = 2_000


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """An answer and its time (ms since the epoch). problem: why there is no newer one, "" if it is current."""

    answer: dict[str, Any] | None
    time_ms: int = 0
    problem: str = ""
    status: int = 200


def ask_for_list(timeout: float | None = None) -> dict[str, Any]:
    """Query all share groups now. Raises `Refusal`."""
    return _keep(LIST, dispatch.ask(ListShareGroups(), timeout))


def ask_for_one(group: str, timeout: float | None = None, skip: int = 0) -> dict[str, Any]:
    """Query one share group now, with record states in the partitions from number `skip` on.

    Raises `Refusal`, with 404 if it does not exist.
    """
    return _keep(_key(group, skip), dispatch.ask(DescribeShareGroup(group, skip=skip), timeout))


def _key(group: str, skip: int) -> str:
    return f"{group}\n{skip}" if skip else group


def look_at_list(timeout: float) -> LastAnswer:
    """Return all share groups, or the last known list. An answer of the last two seconds is recent
    enough for a page.
    """
    return _look(LIST, lambda: ask_for_list(timeout))


def look_at_one(group: str, timeout: float, skip: int = 0) -> LastAnswer:
    """Return the same for one group. `status` 404: it no longer exists."""
    return _look(_key(group, skip), lambda: ask_for_one(group, timeout, skip))


def recall(key: str) -> LastAnswer:
    """Return the last known answer, without a query."""
    row = ShareGroupAnswer.objects.filter(key=key).first()
    return LastAnswer(None) if row is None else LastAnswer(json.loads(row.answer), row.time_ms)


def readers_now() -> Readers:
    """Return the readers. Raises `Refusal` if the cluster's `group.id` is unknown, and no worker reports it."""
    answer = recall(LIST).answer
    return find_readers(str((answer or ask_for_list())["worker_group"]))


def _look(key: str, ask: Callable[[], dict[str, Any]]) -> LastAnswer:
    before = recall(key)
    if before.answer is not None and 0 <= _now_ms() - before.time_ms < _FRESH_MS:
        return before
    try:
        return LastAnswer(ask(), _now_ms())
    except Refusal as error:
        return LastAnswer(before.answer, before.time_ms, error.message, error.status)


def _keep(key: str, answer: dict[str, Any]) -> dict[str, Any]:
    ShareGroupAnswer.objects.update_or_create(
        key=key, defaults={"answer": json.dumps(answer, separators=(",", ":")), "time_ms": _now_ms()}
    )
    old = ShareGroupAnswer.objects.exclude(key=LIST).order_by("-time_ms").values_list("pk", flat=True)[KEPT:]
    if old:
        ShareGroupAnswer.objects.filter(pk__in=list(old)).delete()
    return answer


def _now_ms() -> int:
    return int(time.time() * 1000)
