"""Finds topics in a configuration that the user who saves it may not have it write to.

The task checks each topic again before it writes; this check informs users before anything starts.
"""

from collections.abc import Mapping
from typing import Any, Final

from ringfence.access.principal import Principal, Verb
from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.topic_grants import TopicGrantRecord

_NAMING: Final = ("topic", DEAD_LETTERS, OFFSETS_STORAGE_TOPIC)


def errors_of(config: Mapping[str, str], by: Principal) -> dict[str, str]:
    """Return errors, by the setting that names a topic. References to config providers are left to the task."""
    name = config.get("name", "").strip()
    grant = TopicGrantRecord(ConnectorName(name), by.topics(Verb.EDIT, name))
    errors = {}
    for key in _NAMING:
        for topic in (part.strip() for part in config.get(key, "").split(",")):
            if topic and "${" not in topic and not grant.covers(topic):
                errors[key] = (
                    f"{key}: {topic} is not among the topics that connector {name} of {by.name or 'yours'} may write "
                    f"to ({grant}). Name another topic, or ask an administrator to grant this one."
                )
    return errors


def add_to(validation: dict[str, Any], config: Mapping[str, str], by: Principal) -> dict[str, Any]:
    """Add these errors to Kafka Connect's validation object."""
    entries = {str(entry["value"]["name"]): entry for entry in validation.get("configs", [])}
    for key, text in errors_of(config, by).items():
        entry = entries.get(key) or entries.get("name")
        if entry is not None:
            entry["value"].setdefault("errors", []).append(text)
            validation["error_count"] = int(validation.get("error_count") or 0) + 1
    return validation


def may_look_at(topic: str, connector: str, by: Principal) -> bool:
    """Return whether the topic's records may be shown to `by` as the connector's."""
    return TopicGrantRecord(ConnectorName(connector), by.topics(Verb.VIEW_DATA, connector)).covers(topic)
