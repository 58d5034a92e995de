"""Reads and writes the source offsets of the cluster's connectors on the worker, outside of tasks."""

from collections.abc import Callable, Mapping
from functools import partial

from ringfence.engine.config_topic import ReadState, read_whole
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import transaction_timeout_ms
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import topic_exists
from ringfence.fencing.offsets.alteration import Records, alteration_transactional_id, write
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.offsets.source_offsets import (
    OffsetsSnapshot,
    SourceOffset,
    SourceOffsets,
    canonical,
    read_offsets,
)
from ringfence.fencing.offsets.stores import OffsetStores, prepare, read_merged, resolve, stores_of
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.share.group_moves import merge
from ringfence.fencing.task.clients import connector_producer
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.worker_config import WorkerConfig

Config = Mapping[str, str]

# The markers of a commit may still be written, and a read should include it.
_PATIENCE_SECONDS = 0.25


class ConnectorOffsets:
    """Thread-safe: it only has settings, and this worker's view of its offsets topic."""

    def __init__(
        self,
        config: WorkerConfig,
        client_id: str,
        view: OffsetsView | None = None,
        read_state: ReadState | None = None,
    ) -> None:
        """view: the start of each read; without one, the whole topic is read. read_state: of the config topic; the
        whole topic is read without it, too.
        """
        self._config = config
        self._view = view
        self._connection = config.connection(client_id)
        self._read_state = read_state or partial(read_whole, config, self._connection)
        self._most_bytes = config.number("connector.offsets.max.bytes")

    @property
    def worker_topic(self) -> str:
        """The offsets topic of all connectors that do not have their own."""
        return self._config.offsets_topic

    def stores(self, config: Config, limit: Deadline) -> OffsetStores:
        """Return where a connector with this configuration keeps its offsets. Raises `Invalid`, `Retriable`."""
        return resolve(self._stores(config), limit)

    def prepare(self, config: Config, limit: Deadline) -> OffsetStores:
        """As `stores`, and create its own offsets topic. Call it before a connector instance starts. Raises `Fatal`."""
        return prepare(self._stores(config), self._config.settings, limit)

    def _stores(self, config: Config) -> OffsetStores:
        transactional = self._config.mode == "enabled"
        return stores_of(
            self._connection, self.worker_topic, self._config.settings, config, transactional=transactional
        )

    def read(self, name: ConnectorName, stores: OffsetStores, limit: Deadline) -> SourceOffsets:
        """Read the merged offsets. The worker's topic is read with the worker's credentials.

        Raises `Invalid` if they take too much memory (`connector.offsets.max.bytes`): the process is everybody's.
        """
        if stores.own is None:
            return self._of_worker(name, limit)
        snapshots, most = self._snapshots(name), self._most_bytes
        return read_merged(stores, name, limit, snapshots=snapshots, patience_s=_PATIENCE_SECONDS, most_bytes=most)

    def _of_worker(self, name: ConnectorName, limit: Deadline) -> SourceOffsets:
        snapshots = self._snapshots(name)
        return read_offsets(
            self._connection,
            self.worker_topic,
            name,
            limit,
            snapshots=snapshots,
            patience_s=_PATIENCE_SECONDS,
            most_bytes=self._most_bytes,
        )

    def _snapshots(self, name: ConnectorName) -> list[OffsetsSnapshot]:
        snapshot = self._view.snapshot(name) if self._view is not None else None
        return [] if snapshot is None else [snapshot]

    def await_view(self) -> None:
        """Wait while the worker's view of the topic is being read and makes progress. For reads that are not urgent."""
        if self._view is not None:
            self._view.wait()

    def view(self, name: ConnectorName, config: Config, limit: Deadline) -> list[SourceOffset]:
        """Return the merged offsets in order, for display. Its own topic may not exist yet."""
        stores = self.stores(config, limit)
        if stores.own is not None and not topic_exists(stores.admin, stores.own.name, limit):
            offsets = self._of_worker(name, limit)
        else:
            offsets = self.read(name, stores, limit)
        return sorted(merge(name, offsets.present()), key=lambda each: canonical(each.partition))

    def transactional_id(self, name: ConnectorName) -> str:
        """Return the transactional id that `write` uses."""
        return alteration_transactional_id(self._config.group_id, name)

    def write(
        self,
        name: ConnectorName,
        config: Config,
        stores: OffsetStores,
        decide: Callable[[ConnectorState, SourceOffsets], Records],
        limit: Deadline,
    ) -> int:
        """Write to the effective topic with the connector's producer settings; return the number of records.

        decide: gets the connector's state at the end of the config topic, and its offsets. Both are read after the init
        that fences other writers. It raises `Conflict` if the offsets must no longer be written. If the connector has
        its own topic, tombstones are written to the worker's topic first.
        """

        def records() -> Records:
            state = self._read_state(limit).connector(name)
            offsets = self.read(name, stores, limit)
            due = decide(state, offsets)
            self._tombstones_first(stores, offsets, due, limit)
            return due

        return write(lambda: self._producer(name, config), stores.effective.name, records, limit)

    def _producer(self, name: ConnectorName, config: Config) -> TransactionalClient:
        settings = self._config.settings
        timeout_ms = transaction_timeout_ms(settings, config)
        return connector_producer(self._connection, settings, config, self.transactional_id(name), timeout_ms)

    def _tombstones_first(self, stores: OffsetStores, offsets: SourceOffsets, due: Records, limit: Deadline) -> None:
        if offsets.gaps is None:
            return
        by_key = {offsets.key_of(each.partition): each.partition for each in offsets.all()}
        partitions = [by_key[key] for key, value in due if value is None and key in by_key]
        self.copy(stores, [(offsets.gaps.key_of(partition), None) for partition in partitions], limit)

    def copy(self, stores: OffsetStores, records: Records, limit: Deadline) -> None:
        """Write to the worker's topic, without a transaction and with the worker's credentials."""
        if not records:
            return
        writer = PlainProducer(stores.worker.reading, log_partition_of)
        try:
            writer.write(stores.worker.name, records, limit)
        finally:
            writer.close()
