"""The settings of DltSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, Importance, InstalledChoices, NonEmpty, ShownIf
from ringfence.connectors.sdk.unsupported_values import define_unsupported_values

REST_API: Final = "rest_api"
GROUP: Final = "ringfence.dlt_sources"
"""The group of entry points that name dlt sources: only these can be run."""

PASS: Final = "pass"  # noqa: S105 - the name of a checkpoint
PAGE: Final = "page"

TASK_RESOURCES: Final = "resources"
"""In a task's configuration: a JSON list of the resources that it reads."""

SOURCE_KEY: Final = "source"
RESOURCE_KEY: Final = "resource"
STATE: Final = "state"
BUCKET: Final = "bucket"
"""In a partition with digests of rows, beside source and resource."""
ROWS: Final = "rows"


CONFIG_DEF: Final = ConfigDef()
_source: Final = CONFIG_DEF.group("Source")
_reading: Final = CONFIG_DEF.group("Reading")

SOURCE: Final = _source.text(
    "dlt.source",
    f"{REST_API}: the API that rest.config describes. Otherwise a dlt source: the name of an entry point "
    f"of the group {GROUP} in an installed package.",
    REST_API,
    validator=NonEmpty(),
    recommender=InstalledChoices(GROUP, REST_API),
    importance=Importance.HIGH,
    display_name="Source",
)
_IF_REST: Final = ShownIf(SOURCE, lambda name: name == REST_API)
_IF_INSTALLED: Final = ShownIf(SOURCE, lambda name: name != REST_API)
REST: Final = _source.text(
    "rest.config",
    "The API, as the JSON object that dlt's rest_api expects: client, resource_defaults, "
    "resources. It is visible to all who may view the connector: credentials belong in rest.auth.",
    None,
    recommender=_IF_REST,
    importance=Importance.HIGH,
    display_name="REST API",
)
AUTH: Final = _source.secret(
    "rest.auth",
    'The credentials, as the JSON object that rest_api expects: {"type": "bearer", "token": "…"}; '
    "also api_key, http_basic, oauth2_client_credentials.",
    recommender=_IF_REST,
    importance=Importance.HIGH,
    display_name="Sign-in",
)
ARGUMENTS: Final = _source.text(
    "dlt.config",
    "The arguments of a dlt source from an installed package, as a JSON object.",
    None,
    recommender=_IF_INSTALLED,
    importance=Importance.HIGH,
    display_name="Arguments",
)
SECRETS: Final = _source.secret(
    "dlt.secrets",
    "Further arguments, as a JSON object that is never shown.",
    recommender=_IF_INSTALLED,
    importance=Importance.HIGH,
    display_name="Secret arguments",
)
RESOURCES: Final = _source.items(
    "dlt.resources", "The resources to read. Default: all that the source selects.", display_name="Resources"
)
PREFIX: Final = _source.text(
    "topic.prefix",
    "A resource's topic is this prefix and the resource's name.",
    validator=None,
    display_name="Topic prefix",
)
CHECKPOINT: Final = _reading.choice(
    "checkpoint",
    "pass: a whole reading of a resource is one transaction, kept on disk until it is complete. "
    "page: each page is committed by itself; the API must return rows in the order of their "
    "cursor, and the incremental must declare it with row_order=asc.",
    (PASS, PAGE),
    PASS,
    display_name="Checkpoint",
)
CHANGES: Final = _reading.flag(
    "changes.only",
    "From resources without an incremental, which are read as a whole each time, deliver only rows that are new or "
    "have changed since the last reading. The resources need a primary_key. Deletions are not reported.",
    False,
    display_name="Changes only",
)
POLL_INTERVAL: Final = _reading.integer(
    "poll.interval.ms",
    "Milliseconds between two readings of a resource.",
    60_000,
    100,
    display_name="Poll interval (ms)",
)
define_unsupported_values(_reading)
