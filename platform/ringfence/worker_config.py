"""Kafka Connect's worker settings, from a properties file and from `CONNECT_*` environment variables."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ringfence.connectors import own_listeners, properties
from ringfence.connectors.api import ConfigException
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.egress import DEFAULT, EGRESS_ALLOW, EGRESS_DENY, Policy
from ringfence.connectors.error_settings import AUTO_RESTART_ENABLED, AUTO_RESTART_MAX_ATTEMPTS
from ringfence.connectors.java.runtime import INSTALL_PATH, PLUGIN_PATH, folders_in
from ringfence.connectors.kafka_settings.java_names import BOOTSTRAP, Role, servers, translate
from ringfence.connectors.name_length import describe_length
from ringfence.connectors.worker_limits import names, task_limit, wrong_roots
from ringfence.encryption import ConfigVault
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.client_settings import find_acks_errors, resolve_settings
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.fencing.topics.session_keys import SessionKeys
from ringfence.memory_limit import DEFAULTS as MEMORY_LIMITS
from ringfence.memory_limit import memory_limit
from ringfence.spark_settings import spark_settings

log = logging.getLogger(__name__)

LONGEST_TRANSACTION = "connector.transaction.timeout.max.ms"
"""The longest that a connector may let its transactions stay open. The default is the default limit of brokers."""

ENCRYPTION = "config.storage.encryption.enable"
"""Whether the leader encrypts configurations in the config topic."""

_DEFAULTS = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "ringfence",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "events.storage.topic": "connect-events",
    "config.storage.replication.factor": "3",
    "offset.storage.replication.factor": "3",
    "status.storage.replication.factor": "3",
    "offset.storage.partitions": "25",
    "status.storage.partitions": "5",
    "offset.flush.interval.ms": "60000",
    "offset.flush.timeout.ms": "5000",
    "offsets.view.max.bytes": "536870912",
    "task.shutdown.graceful.timeout.ms": "5000",
    "session.timeout.ms": "10000",
    "max.poll.interval.ms": "30000",
    LONGEST_TRANSACTION: "900000",
    MODE_KEY: Mode.DISABLED.value,
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    EGRESS_ALLOW: DEFAULT,
    EGRESS_DENY: "",
    ENCRYPTION: "false",
    "topic.creation.enable": "true",
    "topic.tracking.enable": "true",
    "topic.tracking.allow.reset": "true",
    "connector.client.config.override.policy": "All",
}
_SECURITY = ("security.protocol", "sasl.", "ssl.")
_POLICIES = ("All", "Principal", "None")
_POLICY_CLASS = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"


def _from_file(path: Path) -> dict[str, str]:
    try:
        return properties.read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, properties.MalformedLine) as error:
        raise Invalid(f"RINGFENCE_WORKER_CONFIG={path} cannot be read: {error}. Correct it and start again") from error


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """settings: the worker's keys as in Kafka Connect, with defaults filled in."""

    settings: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "WorkerConfig":
        """Read the file that `RINGFENCE_WORKER_CONFIG` names, if any, overridden by `CONNECT_*` (`CONNECT_GROUP_ID` for
        `group.id`). Raises `Invalid`, naming the key, for an invalid value.
        """
        env = os.environ if environment is None else environment
        settings = dict(_DEFAULTS)
        if env.get("RINGFENCE_WORKER_CONFIG"):
            settings.update(_from_file(Path(env["RINGFENCE_WORKER_CONFIG"])))
        for name, value in env.items():
            if name.startswith("CONNECT_"):
                settings[name.removeprefix("CONNECT_").lower().replace("_", ".")] = value
        for what in ("replication.factor", "partitions"):
            # Kafka Connect has no setting for the events topic, so its replication must suit a single broker.
            settings.setdefault(f"events.storage.{what}", settings[f"status.storage.{what}"])
        config = cls(settings)
        config._check()
        return config

    def _check(self) -> None:
        if self.mode not in list(Mode):
            raise Invalid(f"exactly.once.source.support={self.mode}: use disabled, preparing or enabled")
        for key in self.settings:
            if key.endswith((".ms", ".factor", ".partitions")):
                self.number(key)
        self._check_restarts()
        for key in ("topic.tracking.enable", "topic.tracking.allow.reset", ENCRYPTION):
            self.flag(key)
        try:
            spark_settings(self.settings, 1)
        except ValueError as error:
            raise Invalid(f"{error}. Remove it from the worker's settings") from error
        try:
            ConfigProviders(self.settings)
            for name in MEMORY_LIMITS:
                memory_limit(self.settings, name)
        except ConfigException as error:
            raise Invalid(str(error)) from error
        self._check_install_path()
        if problem := wrong_roots(self.settings):
            raise Invalid(problem)
        self._check_limits()
        self._check_clients()

    def _check_limits(self) -> None:
        if reason := describe_length(self.group_id):
            raise Invalid(f"group.id: {reason}")
        try:
            task_limit(self.settings)
            Policy(self.settings[EGRESS_ALLOW])
        except ValueError as error:
            raise Invalid(str(error)) from error
        try:
            own_listeners.parse(names(self.settings.get(EGRESS_DENY, "")))
        except ValueError as error:
            raise Invalid(f"{EGRESS_DENY}: {error}") from error

    def _check_install_path(self) -> None:
        folder = self.settings.get(INSTALL_PATH, "").strip()
        if folder and folder not in self.plugin_folders:
            raise Invalid(f"{INSTALL_PATH}={folder}: {PLUGIN_PATH} must contain this folder, too. Add it there")

    def _check_restarts(self) -> None:
        """Check the restart defaults of connectors that do not set these keys themselves."""
        enabled = self.settings.get(AUTO_RESTART_ENABLED, "true")
        if enabled.strip().lower() not in ("true", "false"):
            raise Invalid(f"{AUTO_RESTART_ENABLED}={enabled}: use true or false")
        attempts = self.settings.get(AUTO_RESTART_MAX_ATTEMPTS, "0").strip()
        if not (attempts.isascii() and attempts.isdigit()):
            raise Invalid(f"{AUTO_RESTART_MAX_ATTEMPTS}={attempts}: an integer of at least 0 is expected")
        if REBALANCE_DELAY in self.settings and self.number(REBALANCE_DELAY) < 0:
            raise Invalid(f"{REBALANCE_DELAY}={self.settings[REBALANCE_DELAY]}: 0 or more milliseconds are expected")

    def _check_clients(self) -> None:
        for problem in translate(Role.ADMIN, self._security).errors.values():
            raise Invalid(problem)
        for role in Role:
            translated = resolve_settings(role, self.settings, {})
            for problem in translated.errors.values():
                raise Invalid(problem)
            elsewhere = translated.settings.get(BOOTSTRAP, self.bootstrap)
            if servers(elsewhere) != servers(self.bootstrap):
                raise Invalid(
                    f"{role}.{BOOTSTRAP} names another cluster than {BOOTSTRAP}: remove it, and name the cluster in "
                    f"{Role.PRODUCER}.override.{BOOTSTRAP} of the connectors that write there. Each generation's task "
                    "count record keeps that setting, so that old tasks are fenced where they write"
                )
            for warning in translated.warnings.values():
                log.warning("%s", warning)
        for problem in find_acks_errors(self.settings, {}).values() if self.mode == "enabled" else ():
            raise Invalid(problem)
        _ = self.override_policy, self.session_keys

    def flag(self, key: str) -> bool:
        """Return a boolean setting. Raises `Invalid` for anything but true and false, in any case."""
        text = self.settings[key].strip().lower()
        if text not in ("true", "false"):
            raise Invalid(f"{key}={self.settings[key]}: use true or false")
        return text == "true"

    def number(self, key: str) -> int:
        """Return an integer setting. Raises `Invalid`."""
        try:
            return int(self.settings[key])
        except ValueError:
            raise Invalid(f"{key}={self.settings[key]}: an integer is expected") from None

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"].strip()

    @property
    def group_id(self) -> str:
        return self.settings["group.id"]

    @property
    def config_topic(self) -> str:
        return self.settings["config.storage.topic"]

    @property
    def offsets_topic(self) -> str:
        return self.settings["offset.storage.topic"]

    @property
    def status_topic(self) -> str:
        return self.settings["status.storage.topic"]

    @property
    def events_topic(self) -> str:
        return self.settings["events.storage.topic"]

    @property
    def session_keys(self) -> SessionKeys:
        """Return the session key settings. Raises `Invalid`."""
        return SessionKeys.of(self.settings)

    @property
    def plugin_folders(self) -> tuple[str, ...]:
        """The entries of `plugin.path`."""
        return folders_in(self.settings.get(PLUGIN_PATH, ""))

    @property
    def vault(self) -> ConfigVault:
        """Return the vault that encrypts and decrypts the config topic's configurations."""
        return ConfigVault(encrypts=self.flag(ENCRYPTION))

    @property
    def override_policy(self) -> str:
        """Return All, Principal or None: which client settings a connector may override (KIP-458). Raises `Invalid`."""
        policy = self.settings["connector.client.config.override.policy"]
        for name in _POLICIES:
            if policy in (name, _POLICY_CLASS.format(name)):
                return name
        raise Invalid(f"connector.client.config.override.policy={policy}: use {', '.join(_POLICIES)}")

    @property
    def mode(self) -> str:
        """Return disabled, preparing or enabled (KIP-618, "Worker configuration")."""
        return self.settings[MODE_KEY].strip().lower()

    def connection(self, client_id: str = "ringfence") -> Connection:
        """Return the worker's own cluster, with the worker's credentials."""
        return Connection(self.bootstrap, translate(Role.ADMIN, self._security).settings, client_id)

    @property
    def _security(self) -> dict[str, str]:
        return {key: value for key, value in self.settings.items() if key.startswith(_SECURITY)}
