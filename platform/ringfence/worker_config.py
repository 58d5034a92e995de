"""Kafka Connect's worker settings, from a properties file and from `CONNECT_*` environment variables."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import AUTO_RESTART_ENABLED, AUTO_RESTART_MAX_ATTEMPTS
from ringfence.connectors.config_providers import PREFIX as PROVIDERS
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.java.runtime import INSTALL_PATH, PLUGIN_PATH, folders_in
from ringfence.connectors.sdk import own_listeners, properties
from ringfence.connectors.sdk.egress import DEFAULT, EGRESS_ALLOW, EGRESS_DENY, Policy
from ringfence.connectors.sdk.kafka_settings.java_names import BOOTSTRAP, Role, servers, translate
from ringfence.connectors.sdk.names import describe_length
from ringfence.connectors.sdk.worker_limits import names, task_limit, wrong_roots
from ringfence.encryption import ConfigVault
from ringfence.fencing.draft_names import read_final_names
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, find_acks_errors, resolve_settings
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.fencing.topics.session_keys import SessionKeys
from ringfence.memory_limit import DEFAULTS as MEMORY_LIMITS
from ringfence.memory_limit import memory_limit
from ringfence.spark_settings import spark_settings
from ringfence.task_slots import choose_isolation

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
    "connector.offsets.max.bytes": "268435456",
    "task.shutdown.graceful.timeout.ms": "5000",
    "session.timeout.ms": "10000",
    "max.poll.interval.ms": "30000",
    LONGEST_TRANSACTION: "900000",
    MODE_KEY: Mode.DISABLED.value,
    "key.converter": "TextOrJsonConverter",
    "value.converter": "TextOrJsonConverter",
    EGRESS_ALLOW: DEFAULT,
    EGRESS_DENY: "",
    ENCRYPTION: "false",
    "topic.creation.enable": "true",
    "topic.tracking.enable": "true",
    "topic.tracking.allow.reset": "true",
    "connector.client.config.override.policy": "All",
}
_SECURITY = ("security.protocol", "sasl.", "ssl.", "https.ca.")
_POLICIES = ("All", "Principal", "None")
_POLICY_CLASS = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"


def _reason(check: Callable[[], object]) -> list[str]:
    """Return the message of the check's error; nothing if it raises none."""
    try:
        check()
    except (Invalid, ConfigException, ValueError) as error:
        return [str(error)]
    return []


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
        settings: dict[str, str] = {}
        if env.get("RINGFENCE_WORKER_CONFIG"):
            settings.update(read_final_names(_from_file(Path(env["RINGFENCE_WORKER_CONFIG"]))))
        variables = {
            name.removeprefix("CONNECT_").lower().replace("_", "."): value
            for name, value in env.items()
            if name.startswith("CONNECT_")
        }
        settings.update(read_final_names(variables))
        config = cls.of_settings(settings)
        problems = [*config.find_problems()]
        if problems:
            more = f" ({len(problems) - 1} more: `ringfence check FILE` names them)" if problems[1:] else ""
            raise Invalid(f"{problems[0]}{more}")
        for warning in config.find_ignored().values():
            log.warning("%s", warning)
        return config

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> "WorkerConfig":
        """Return the configuration with these settings and the defaults of all others, without a check."""
        settings = {**_DEFAULTS, **settings}
        for what in ("replication.factor", "partitions"):
            # Kafka Connect has no setting for the events topic, so its replication must suit a single broker.
            settings.setdefault(f"events.storage.{what}", settings[f"status.storage.{what}"])
        return cls(settings)

    def find_problems(self) -> Iterator[str]:
        """Yield why a worker does not start with these settings. Each message names a setting and the remedy."""
        if self.mode not in list(Mode):
            yield f"{MODE_KEY}={self.mode}: use disabled, preparing or enabled"
        checks: list[Callable[[], object]] = [
            *(partial(self.number, key) for key in self.settings if key.endswith((".ms", ".factor", ".partitions"))),
            *(partial(self.flag, key) for key in ("topic.tracking.enable", "topic.tracking.allow.reset", ENCRYPTION)),
            *(partial(memory_limit, self.settings, name) for name in MEMORY_LIMITS),
            partial(task_limit, self.settings),
            partial(choose_isolation, self.settings),
            partial(Policy, self.settings[EGRESS_ALLOW]),
            lambda: self.override_policy,
            lambda: self.session_keys,
        ]
        for check in checks:
            yield from _reason(check)
        yield from (f"{text}. Remove it from the worker's settings" for text in _reason(self._spark))
        yield from (f"{EGRESS_DENY}: {text}" for text in _reason(self._closed_addresses))
        yield from self._provider_problems()
        yield from self._restart_problems()
        yield from self._path_problems()
        yield from self._client_problems()

    def _spark(self) -> None:
        spark_settings(self.settings, 1)

    def _closed_addresses(self) -> None:
        own_listeners.parse(names(self.settings.get(EGRESS_DENY, "")))

    def _provider_problems(self) -> Iterator[str]:
        for name in names(self.settings.get(PROVIDERS, "")):
            yield from _reason(partial(ConfigProviders, {**self.settings, PROVIDERS: name}))

    def _path_problems(self) -> Iterator[str]:
        folder = self.settings.get(INSTALL_PATH, "").strip()
        if folder and folder not in self.plugin_folders:
            yield f"{INSTALL_PATH}={folder}: {PLUGIN_PATH} must contain this folder, too. Add it there"
        if problem := wrong_roots(self.settings):
            yield problem
        if reason := describe_length(self.group_id):
            yield f"group.id: {reason}"

    def _restart_problems(self) -> Iterator[str]:
        """Check the restart defaults of connectors that do not set these keys themselves."""
        enabled = self.settings.get(AUTO_RESTART_ENABLED, "true")
        if enabled.strip().lower() not in ("true", "false"):
            yield f"{AUTO_RESTART_ENABLED}={enabled}: use true or false"
        attempts = self.settings.get(AUTO_RESTART_MAX_ATTEMPTS, "0").strip()
        if not (attempts.isascii() and attempts.isdigit()):
            yield f"{AUTO_RESTART_MAX_ATTEMPTS}={attempts}: an integer of at least 0 is expected"
        delay = self.settings.get(REBALANCE_DELAY, "0").strip()
        if delay.startswith("-"):
            yield f"{REBALANCE_DELAY}={delay}: 0 or more milliseconds are expected"

    def _client_problems(self) -> Iterator[str]:
        yield from translate(Role.ADMIN, self._security).errors.values()
        for role in Role:
            translated = resolve_settings(role, self.settings, {})
            yield from translated.errors.values()
            elsewhere = translated.settings.get(BOOTSTRAP, self.bootstrap)
            if servers(elsewhere) != servers(self.bootstrap):
                yield (
                    f"{role}.{BOOTSTRAP} names another cluster than {BOOTSTRAP}: remove it, and name the cluster in "
                    f"{Role.PRODUCER}.override.{BOOTSTRAP} of the connectors that write there. Each generation's task "
                    "count record keeps that setting, so that old tasks are fenced where they write"
                )
        if self.mode == "enabled":
            yield from find_acks_errors(self.settings, {}).values()

    def find_ignored(self) -> dict[str, str]:
        """Return a warning for each client setting that has no effect, by its name."""
        translations = [resolve_settings(role, self.settings, {}) for role in Role]
        return {name: text for translation in translations for name, text in translation.warnings.items()}

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
    def projection_group(self) -> str:
        """The group whose member with the partition projects the topics into the database."""
        return f"{self.group_id}-projection"

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of which workers are members."""
        return self.group_id, self.projection_group

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
