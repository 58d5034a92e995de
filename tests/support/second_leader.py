"""A second worker that becomes leader when the first one goes."""

import threading
from collections.abc import Mapping

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.members import identity
from ringfence.engine.plugins import PluginHost
from ringfence.fencing.topics.reporter import Reporter
from tests.support.engine_cluster import Cluster
from tests.support.plugin_hosts import PATIENCE


class Second:
    """Another worker of the same cluster."""

    def __init__(self, first: Cluster, installed: Mapping[str, str]) -> None:
        config = first.config
        self.reporter = Reporter(first.connection, config.status_topic, config.events_topic)
        self.record = identity("w2", "i2", config, 4, "1", self.reporter.now_ms())
        self.plugins = PluginHost(environment=installed, call_seconds=PATIENCE)
        self.config_topic = ConfigTopic(config, first.connection)
        self.leader = Leader(config, self.record, self.plugins, self.reporter, self.config_topic)
        self.commands = CommandService(self.leader, self.plugins, self.reporter, first.connection, first.validation)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.leader.run, args=(self._stop,))
        self._following = threading.Thread(target=self.config_topic.run, args=(self._stop,))

    def start(self) -> None:
        self._following.start()
        self._thread.start()
        self.reporter.status(self.record)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._following.join(30)
        self.plugins.close()
        self.reporter.close()
