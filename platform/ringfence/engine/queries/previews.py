"""Carries out previews of a source, and trials of transforms, with the worker's offsets and settings.

A preview polls a source. Unless the connector declares that a preview may read while its tasks run
(`SourceConnector.preview_while_running`), the connector of that name and all others that read the same source must be
at rest, according to the end of the config topic. A user may still start one between this check and the last poll,
seconds later.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from ringfence.engine.config_topic import ReadState, read_whole
from ringfence.engine.fair_places import FairPlaces, place_for
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import PreviewRecords, ReadConfigKeys, TryChain, pairs_of
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

AT_ONCE: Final = 2
_MARGIN_SECONDS: Final = 15.0
"""The time to start the process and the plugin, in addition to the time for polls."""
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_TEXTS: Final = frozenset({"STRING", "LIST", "CLASS", "PASSWORD"})
_NAMES_A_TOPIC: Final = re.compile(r"(^|\.)topic(\.|$)")
"""Settings that name the topic to write to. `topics`, in plural, are topics that a connector reads."""

Config = Mapping[str, str]
CommittedOffsets = list[tuple[Mapping[str, object], Mapping[str, object] | None]]


class Previews:
    """One object per worker, thread-safe."""

    def __init__(self, plugins: PluginHost, worker: WorkerConfig, read_state: ReadState | None = None) -> None:
        """read_state: of the config topic; the whole topic is read without it."""
        self._plugins = plugins
        self._worker = worker
        self._read_state = read_state or partial(read_whole, worker, worker.connection("ringfence-preview"))
        self._places = FairPlaces(AT_ONCE)

    def preview(
        self, config: Config, secret: Sequence[str], bounds: Mapping[str, float], limit: Deadline, *, fresh: bool
    ) -> dict[str, object]:
        """Return the first records after the committed source offsets; with `fresh`, from the beginning of the source.

        The answer also has `from`, the offsets at which it began, and `beside`, whether a connector that may run reads
        the same source. It is `{"busy": name}` if that forbids the preview. Raises `Refusal`.
        """
        needed = bounds["seconds"] + _MARGIN_SECONDS
        with place_for(self._places, "previews", Deadline.after(max(0.0, limit.remaining - needed))):
            plugin = self._plugin(config, limit)
            rival = self._rival(config, plugin, limit)
            if rival is not None and not plugin.get("preview_while_running"):
                return {"busy": rival}
            offsets = [] if fresh else self._offsets(config, limit)
            timeout = limit.slice(needed)
            result = self._plugins.ask(
                PreviewRecords(config, pairs_of(offsets), self._converters(), secret, bounds), timeout
            )
            start = [{"partition": dict(partition), "offset": offset} for partition, offset in offsets]
            return {**result, "from": start, "beside": rival is not None}

    def try_transforms(
        self, config: Config, record: Mapping[str, object], secret: Sequence[str], limit: Deadline
    ) -> dict[str, object]:
        """See `PluginHost.try_transforms`."""
        return self._plugins.ask(TryChain(config, record, self._converters(), secret), min(10.0, limit.remaining))

    def _converters(self) -> dict[str, str]:
        """Return the worker's settings for the default converters, which a plugin process may see."""
        return {key: value for key, value in self._worker.settings.items() if key.startswith(_CONVERTERS)}

    def _plugin(self, config: Config, limit: Deadline) -> Mapping[str, object]:
        """Return the description of the configuration's plugin; {} if it is not installed."""
        class_name = config.get("connector.class", "").strip()
        plugins = self._plugins.plugins(limit.slice(self._plugins.call_seconds))
        matches = (one for one in plugins if class_name in cast("list[str]", one["names"]))
        return next(matches, {})

    def _rival(self, config: Config, plugin: Mapping[str, object], limit: Deadline) -> str | None:
        try:
            state = self._read_state(Deadline.after(limit.slice(10)))
        except FencingError as error:
            raise Refusal(503, f"Whether a task reads the source cannot be found out now: {error}") from error
        class_name = config.get("connector.class", "").strip()
        names = frozenset(cast("list[str]", plugin.get("names", [class_name])))
        timeout = limit.slice(self._plugins.call_seconds)
        return rival_of(config, state, names, self._plugins.ask(ReadConfigKeys(class_name), timeout))

    def _offsets(
        self, config: Config, limit: Deadline
    ) -> list[tuple[Mapping[str, object], Mapping[str, object] | None]]:
        store = ConnectorOffsets(self._worker, "ringfence-preview")
        try:
            offsets = store.view(ConnectorName(config["name"]), config, limit)
        except FencingError as error:
            raise Refusal(500, f"The committed source offsets cannot be read now: {error}") from error
        return [(each.partition, each.offset) for each in offsets]


def rival_of(
    config: Config, state: ClusterState, names: frozenset[str], keys: Iterable[Mapping[str, object]]
) -> str | None:
    """Return the first connector that is not at rest and reads the same source as this configuration; None for none.

    names: all names of the plugin in `connector.class`; keys: the plugin's settings. Two connectors read the same
    source if all their settings of type string are equal, except those that name the topic to write to. A plugin
    without such settings, which generates its records, shares no source.
    """
    name = ConnectorName(config.get("name", ""))
    if not at_rest(state.connector(name)):
        return name
    defaults = {str(key["name"]): str(key.get("default_value") or "") for key in keys if _says_where(key)}
    if not defaults:
        return None

    def source(of: Config) -> list[str]:
        return [of.get(key, default).strip() for key, default in defaults.items()]

    own_source = source(config)
    for other in state.existing():
        theirs = other.config or {}
        same = (
            other.name != name and theirs.get("connector.class", "").strip() in names and source(theirs) == own_source
        )
        if same and not at_rest(other):
            return other.name
    return None


def at_rest(connector: ConnectorState) -> bool:
    """Return whether nothing of it runs or can start: it is stopped or missing, and its last round is over."""
    if connector.round_pending or (connector.commit is not None and connector.commit.tasks):
        return False
    return connector.config is None or connector.target is TargetState.STOPPED


def _says_where(key: Mapping[str, object]) -> bool:
    return str(key.get("type")) in _TEXTS and not _NAMES_A_TOPIC.search(str(key["name"]))
