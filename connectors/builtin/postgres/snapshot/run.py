"""A task's part in a snapshot: the plan, its share of the ranges, and the wait for the other tasks."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import psycopg

from ringfence.connectors.api import (
    ConnectorError,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTaskContext,
)
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.session import one_line
from ringfence.connectors.builtin.postgres.setup import Setup
from ringfence.connectors.builtin.postgres.snapshot.gauges import SnapshotGauges
from ringfence.connectors.builtin.postgres.snapshot.plan import Plan, plan_records
from ringfence.connectors.builtin.postgres.snapshot.planner import find_tables, make_plan
from ringfence.connectors.builtin.postgres.snapshot.reading_phase import Limits, ReadingPhase, Source
from ringfence.connectors.builtin.postgres.snapshot.state import SnapshotState, find_state
from ringfence.connectors.builtin.postgres.snapshot.visibility import EarlierTransactions

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5
_SHOW_SECONDS: Final = 5.0


class SnapshotRun:
    """Reads a snapshot. Call `poll` until `state` is set: then every range of every task is committed.

    The first task makes the plan, and finally waits for the others. They wait for the plan.
    """

    def __init__(
        self,
        setup: Setup,
        context: SourceTaskContext,
        mode: str,
        state: SnapshotState,
        number: int,
        tasks: int,
        first: Sequence[SourceRecord],
    ) -> None:
        """state: without a plan if a new one is needed; first: records to commit with the plan."""
        self._setup = setup
        self._context = context
        self._mode = mode
        self._number, self._tasks = number, tasks
        self._first = list(first)
        self._earlier = EarlierTransactions(setup.session.query)
        self._phase: ReadingPhase | None = None
        self.state: SnapshotState | None = None
        self._gauges = SnapshotGauges(context.metrics) if number == 0 else None
        self._look_at = time.monotonic() + _SHOW_SECONDS
        self._plan_id = ""
        if state.plan is not None:
            self._begin(state.plan, context.offset_reader.offset)

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or None if there are none now. Raises `ConnectorError`."""
        try:
            return self._poll()
        except ConnectorError as error:
            if isinstance(error.__cause__, psycopg.OperationalError):  # the server may be restarting
                raise RetriableError(str(error)) from error
            raise

    def _poll(self) -> Sequence[SourceRecord] | None:
        if self._phase is None:
            if self._number == 0:
                return self._plan()
            self._await_plan()
            return None
        if not self._phase.done:
            if self._number == 0 and time.monotonic() >= self._look_at:
                self._look()
            return self._phase.poll()
        if self.state is None:
            self._await_others()
        return None

    def _plan(self) -> Sequence[SourceRecord] | None:
        try:
            if not self._slot_is_quiet():
                self._context.wait(_LOOK_SECONDS)
                return None
            setup = self._setup
            tables = find_tables(setup.session, setup.publication, setup.selection)
            plan = make_plan(setup.session, tables, setup.settings.integer(names.RANGE_ROWS))
        except psycopg.OperationalError as error:
            raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error
        except psycopg.Error as error:
            raise ConnectorError(f"The tables cannot be divided into ranges: {one_line(error)}.") from error
        logger.info(
            "The snapshot reads %d tables in %d ranges, about %d rows",
            *(len(plan.tables), len(plan.ranges()), sum(table.rows for table in plan.tables)),
        )
        self._request_commit()
        records = [*self._first, *plan_records(setup.prefix, plan)]
        self._begin(plan, lambda _partition: None)
        return records

    def _slot_is_quiet(self) -> bool:
        """Return whether all transactions that were running when the slot was created have ended.

        Such a transaction may commit before the slot's first position and still be invisible, for example because it
        waits for a synchronous standby. Then neither the stream nor rows that are read now would contain its changes.
        """
        if self._mode == names.INITIAL_ONLY:
            return True
        left = self._earlier.count()
        if left:
            logger.info("The snapshot waits for %d transactions that started before the slot was created", left)
        return not left

    def _await_plan(self) -> None:
        self._context.wait(_LOOK_SECONDS)
        read = self._context.read_offsets()
        state = find_state(self._setup.prefix, self._mode, read.offset)
        if state.plan is not None:
            self._begin(state.plan, read.offset)

    def _begin(self, plan: Plan, offset: Callable[[SourcePartition], SourceOffset | None]) -> None:
        self._plan_id = plan.id
        setup = self._setup
        source = Source(
            setup.server,
            setup.session,
            setup.publication,
            setup.selection,
            setup.new_describer(),
            setup.records,
            setup.prefix,
            self._context.converters,
        )
        limits = Limits(setup.batch_size, setup.longest_seconds)
        share = plan.share(self._number, self._tasks)
        self._phase = ReadingPhase(source, plan, share, offset, limits, self._request_commit)

    def _request_commit(self) -> None:
        if self._context.transaction_context is not None:
            self._context.transaction_context.commit_transaction()

    def _await_others(self) -> None:
        self._context.wait(_LOOK_SECONDS)
        if self._number:
            return  # the first task continues when all are done
        state = self._look()
        if state.complete and state.plan is not None and state.plan.id == self._plan_id:
            rows = sum(one.rows for one in state.ranges.values())
            logger.info("The snapshot is complete: %d rows", rows)
            self.state = state

    def _look(self) -> SnapshotState:
        """Return what all tasks have committed, and show it."""
        state = find_state(self._setup.prefix, self._mode, self._context.read_offsets().offset)
        if self._gauges is not None:
            self._gauges.show(state)
        self._look_at = time.monotonic() + _SHOW_SECONDS
        return state

    def close(self) -> None:
        """Close the connection of the open range."""
        if self._phase is not None:
            self._phase.close()
