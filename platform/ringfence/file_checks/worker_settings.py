"""Kafka Connect's worker settings that have no effect here, and why; and the names of those that have."""

from typing import Final

from ringfence.connectors.config_providers import PREFIX as PROVIDERS
from ringfence.connectors.sdk.kafka_settings.java_names import Role

_REST: Final = "the web process serves the REST API. Set RINGFENCE_HTTP, or ringfence up --http."
_MEMBER: Final = "it tunes the membership in Kafka Connect's own group protocol. Remove it."
_CLIENT: Final = "it concerns the worker's own client. For the clients of tasks, set producer.{0} and consumer.{0}."
_METRICS: Final = "metrics are at /metrics, for Prometheus. Remove it."
_ORIGIN: Final = "pages of other origins cannot call the REST API. Remove it."
_CLIENT_NAMES: Final = (
    "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "receive.buffer.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
    "retry.backoff.ms", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)  # fmt: skip

IGNORED: Final = {
    **{name: _CLIENT.format(name) for name in _CLIENT_NAMES},
    **dict.fromkeys(
        ("connect.protocol", "heartbeat.interval.ms", "rebalance.timeout.ms", "worker.sync.timeout.ms",
         "worker.unsync.backoff.ms"),
        _MEMBER,
    ),
    **dict.fromkeys(
        ("listeners", "admin.listeners", "rest.host.name", "rest.port", "rest.advertised.host.name",
         "rest.advertised.port", "rest.advertised.listener", "response.http.headers.config"),
        _REST,
    ),
    **dict.fromkeys(("access.control.allow.origin", "access.control.allow.methods"), _ORIGIN),
    **dict.fromkeys(
        ("metric.reporters", "metrics.num.samples", "metrics.sample.window.ms", "metrics.recording.level",
         "auto.include.jmx.reporter", "enable.metrics.push"),
        _METRICS,
    ),
    "rest.extension.classes": "the REST API has accounts and permissions of its own (docs/access.md). Remove it.",
    "plugin.discovery": "Java plugins are found by their service manifests: connect-plugin-path.sh sync-manifests "
    "writes those that are missing. Remove it.",
    "offset.storage.file.filename": "source offsets are in the topic offset.storage.topic. To continue where a "
    "standalone worker stopped, set them with ringfence offsets set.",
    "task.assignment.timeout.ms": _MEMBER,
}  # fmt: skip
"""By name: why a setting has no effect, and what to do."""

IGNORED_PREFIXES: Final = {
    "internal.key.converter": "Kafka Connect has had no such setting since 3.0: internal records are JSON. Remove it.",
    "internal.value.converter": "Kafka Connect has had no such setting since 3.0: internal records are JSON. Remove "
    "it.",
    "listeners.https.": _REST,
    "admin.listeners.": _REST,
    "metrics.context.": _METRICS,
    "metrics.jmx.": _METRICS,
}

KNOWN: Final = frozenset(
    {
        "auto.restart.enabled", "auto.restart.max.attempts", "bootstrap.servers", "call.memory.limit",
        "config.storage.encryption.enable", "config.storage.topic", "connector.client.config.override.policy",
        "connector.offsets.max.bytes", "connector.transaction.timeout.max.ms", "connectors.memory.limit",
        "egress.allow", "egress.deny", "events.storage.topic", "exactly.once.source.support", "file.roots",
        "file.write.roots", "group.id", "header.converter", "inter.worker.key.generation.algorithm",
        "inter.worker.key.size", "inter.worker.key.ttl.ms", "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms", "java.options", "java.shared.options", "key.converter", "listen.host",
        "max.poll.interval.ms", "offset.flush.interval.ms", "offset.flush.timeout.ms", "offset.storage.topic",
        "offsets.view.max.bytes", "plugin.install.path", "plugin.path", "scheduled.rebalance.max.delay.ms",
        "security.protocol", "session.timeout.ms", "status.storage.topic", "task.memory.limit",
        "task.shutdown.graceful.timeout.ms", "task.slots", "tasks.max.limit", "topic.creation.enable",
        "topic.tracking.allow.reset", "topic.tracking.enable", "transaction.timeout.ms", "value.converter", PROVIDERS,
    }
)  # fmt: skip
"""Settings that have an effect."""

KNOWN_PREFIXES: Final = (
    *(f"{role}." for role in Role),
    "sasl.", "ssl.", "https.ca.", "spark.", f"{PROVIDERS}.", "key.converter.", "value.converter.", "header.converter.",
    "config.storage.", "offset.storage.", "status.storage.", "events.storage.",
)  # fmt: skip
"""Families of settings that have an effect, such as settings of topics and clients. What is wrong in them is found
elsewhere.
"""
