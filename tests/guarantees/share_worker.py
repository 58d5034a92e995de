"""One attempt of a share group's task in a process of its own, to be killed: `python -m tests.guarantees.share_worker`.

MODE SPEC STALLED, where MODE leaves a rule out: `exact` none, `nocheck` the check behind the claim (the defect build,
which a chaos test must find), `plain` the ledger (at least once). STALLED is the share of commits that stall behind
the check, for up to three seconds: the classic zombie.
"""

import logging
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ringfence.connectors.api import RecordBatch, ShareInput, ShareRecord, SourceRecord
from ringfence.connectors.builtin.share_group.task import ShareGroupSourceTask
from ringfence.connectors.sdk import worker_limits
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.clock import Deadline
from ringfence.fencing.share import partition_claims
from ringfence.fencing.share.ledger import START
from ringfence.fencing.share.partition_claims import ClaimCheck
from ringfence.fencing.share.share_group_source import ShareSource
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Outcome, Plugin, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.shares import BEGUN
from tests.guarantees.stage import Plain

log = logging.getLogger(__name__)


class Stalling(Producer):
    """The real one, which stands still at the worst moment: the check is behind it, the commit before it."""

    stalled = 0.0

    def commit(self, deadline: Deadline) -> None:
        if random.random() < self.stalled:
            time.sleep(random.uniform(0.3, 3.0))
        super().commit(deadline)


class Choosy:
    """A share group of which some values are never wanted, and some not when they come for the first time."""

    def __init__(self, source: ShareInput, rejected: str, released: str) -> None:
        """Values that end so; none by ""."""
        self._source, self._rejected, self._released = source, rejected.encode(), released.encode()
        self._seen: set[int] = set()
        self.accept, self.release, self.reject = source.accept, source.release, source.reject

    def poll(self, seconds: float, limit: int) -> Sequence[ShareRecord]:
        kept = []
        for record in self._source.poll(seconds, limit):
            value = record.value if isinstance(record.value, bytes) else b""
            if self._rejected and value.endswith(self._rejected):
                self.reject(record)
            elif self._released and value.endswith(self._released) and record.offset not in self._seen:
                self._seen.add(record.offset)
                log.info("Released %d, delivered %d times", record.offset, record.delivery_count)
                self.release(record)
            else:
                self.accept(record)
                kept.append(record)
        return kept


class Slow(ShareGroupSourceTask):
    """`slow.ms`: what each record costs; a value that ends with `kill.value` ends the process; `forget.ms`: when the
    ledger forgets a deleted topic; `reject.value` and `release.value`: as `Choosy`.
    """

    def start(self, config: Mapping[str, str]) -> None:
        partition_claims.AFTER_S = float(config.get("forget.ms", "600000")) / 1000
        super().start(config)
        self._input = Choosy(self._input, config.get("reject.value", ""), config.get("release.value", ""))
        self._begun = False
        self._slow_s = float(config.get("slow.ms", "0")) / 1000
        self._kills = config.get("kill.value", "").encode()

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        batch = super().poll()
        if batch and not self._begun:
            self._begun = True
            log.info(BEGUN)
        if batch is not None and self._kills:
            values = batch.values if isinstance(batch, RecordBatch) else [record.value for record in batch]
            if any(isinstance(value, bytes) and value.endswith(self._kills) for value in values):
                os._exit(9)
        if batch is not None and self._slow_s:
            time.sleep(self._slow_s * len(batch))
        return batch


def leave_out(mode: str) -> None:
    """Turn this process into a defect build."""
    anything: Any = ClaimCheck
    if mode in ("nocheck", "plain"):
        anything.run = lambda *_: None
    if mode == "plain":
        source: Any = ShareSource
        state = ShareSource.states
        source.begin = lambda *_: 0
        source.check = lambda *_: None
        source.states = lambda self: state(self) if _begins(self) else state(self) and []


def _begins(source: Any) -> bool:
    """Whether the transaction says where partitions begin: that is kept, or each life would say it again."""
    return any(START in offsets for offsets in source._claims.wanted.values())


def run(mode: str, spec: TaskSpec, stalled: float) -> Outcome:
    leave_out(mode)
    worker_limits.declare(worker_limits.of_settings(spec.worker_settings))

    def new_producer(spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
        made = Stalling(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)
        made.stalled = stalled
        return made

    convert = Conversion(spec) if "transforms" in spec.connector_config else Plain(raw=True)
    plugin = Plugin(Slow, {**spec.connector_config, **spec.task_config}, convert)
    reporter = Reporter(spec.connection, spec.topics.status, spec.topics.events)
    return SourceTaskRun(spec, plugin, reporter, new_producer=new_producer).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    outcome = run(sys.argv[1], TaskSpec.loads(sys.argv[2]), float(sys.argv[3]))
    print(outcome.reason, outcome.trace or "", flush=True)
