"""The settings of DltSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    ShownIf,
    Width,
)
from ringfence.connectors.installed_choices import InstalledChoices
from ringfence.connectors.unsupported_values import define_unsupported_values

SOURCE: Final = "dlt.source"
ARGUMENTS: Final = "dlt.config"
SECRETS: Final = "dlt.secrets"
RESOURCES: Final = "dlt.resources"
REST: Final = "rest.config"
AUTH: Final = "rest.auth"
PREFIX: Final = "topic.prefix"
CHECKPOINT: Final = "checkpoint"
CHANGES: Final = "changes.only"
POLL_INTERVAL: Final = "poll.interval.ms"

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

_SOURCE: Final = "Source"
_READING: Final = "Reading"
_IF_REST: Final = ShownIf(SOURCE, lambda name: name == REST_API)
_IF_INSTALLED: Final = ShownIf(SOURCE, lambda name: name != REST_API)

CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        SOURCE,
        ConfigType.STRING,
        REST_API,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        recommender=InstalledChoices(GROUP, REST_API),
        group=_SOURCE,
        documentation=f"{REST_API}: the API that {REST} describes. Otherwise a dlt source: the name of an entry point "
        f"of the group {GROUP} in an installed package.",
        display_name="Source",
    )
    .define(
        REST,
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        recommender=_IF_REST,
        group=_SOURCE,
        documentation="The API, as the JSON object that dlt's rest_api expects: client, resource_defaults, "
        f"resources. It is visible to all who may view the connector: credentials belong in {AUTH}.",
        width=Width.LONG,
        display_name="REST API",
    )
    .define(
        AUTH,
        ConfigType.PASSWORD,
        None,
        importance=Importance.HIGH,
        recommender=_IF_REST,
        group=_SOURCE,
        documentation='The credentials, as the JSON object that rest_api expects: {"type": "bearer", "token": "…"}; '
        "also api_key, http_basic, oauth2_client_credentials.",
        width=Width.LONG,
        display_name="Sign-in",
    )
    .define(
        ARGUMENTS,
        ConfigType.STRING,
        None,
        recommender=_IF_INSTALLED,
        importance=Importance.HIGH,
        display_name="Arguments",
        group=_SOURCE,
        documentation="The arguments of a dlt source from an installed package, as a JSON object.",
        width=Width.LONG,
    )
    .define(
        SECRETS,
        ConfigType.PASSWORD,
        None,
        recommender=_IF_INSTALLED,
        importance=Importance.HIGH,
        display_name="Secret arguments",
        group=_SOURCE,
        documentation="Further arguments, as a JSON object that is never shown.",
        width=Width.LONG,
    )
    .define(
        RESOURCES,
        ConfigType.LIST,
        [],
        display_name="Resources",
        group=_SOURCE,
        documentation="The resources to read. Default: all that the source selects.",
        width=Width.LONG,
    )
    .define(
        PREFIX,
        ConfigType.STRING,
        importance=Importance.HIGH,
        group=_SOURCE,
        documentation="A resource's topic is this prefix and the resource's name.",
        display_name="Topic prefix",
    )
    .define(
        CHECKPOINT,
        ConfigType.STRING,
        PASS,
        validator=OneOf(PASS, PAGE),
        recommender=Choices(PASS, PAGE),
        display_name="Checkpoint",
        group=_READING,
        documentation="pass: a whole reading of a resource is one transaction, kept on disk until it is complete. "
        "page: each page is committed by itself; the API must return rows in the order of their "
        "cursor, and the incremental must declare it with row_order=asc.",
    )
    .define(
        CHANGES,
        ConfigType.BOOLEAN,
        False,
        group=_READING,
        documentation="From resources without an incremental, which are read as a whole each time, deliver only rows "
        "that are new or have changed since the last reading. The resources need a primary_key. "
        "Deletions are not reported.",
        display_name="Changes only",
    )
    .define(
        POLL_INTERVAL,
        ConfigType.INT,
        60_000,
        validator=Range(100),
        display_name="Poll interval (ms)",
        group=_READING,
        documentation="Milliseconds between two readings of a resource.",
    )
)
define_unsupported_values(CONFIG_DEF, _READING)
