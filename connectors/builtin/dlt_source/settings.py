"""The settings of DltSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigType, Importance, NonEmpty, OneOf, Range, Width

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
"""The entry points that name dlt sources: only those can be run."""

PASS: Final = "pass"  # noqa: S105 - the name of a checkpoint
PAGE: Final = "page"

TASK_RESOURCES: Final = "resources"
"""In the configuration of a task: a JSON list of the resources that it reads."""

SOURCE_KEY: Final = "source"
RESOURCE_KEY: Final = "resource"
STATE: Final = "state"
BUCKET: Final = "bucket"
"""Beside source and resource in a partition with digests of rows."""
ROWS: Final = "rows"

_SOURCE: Final = "Source"
_READING: Final = "Reading"

CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        SOURCE,
        ConfigType.STRING,
        REST_API,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        group=_SOURCE,
        documentation=f"{REST_API}: the API that {REST} describes. Else a dlt source: the name of an entry point of "
        f"the group {GROUP} in an installed package.",
        display_name="Source",
    )
    .define(
        REST,
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        group=_SOURCE,
        documentation="The API, as the JSON object that dlt's rest_api takes: client, resource_defaults, resources. "
        f"It is shown to all who see the connector: what signs in belongs in {AUTH}.",
        width=Width.LONG,
        display_name="REST API",
    )
    .define(
        AUTH,
        ConfigType.PASSWORD,
        None,
        importance=Importance.HIGH,
        group=_SOURCE,
        documentation='How to sign in, as the JSON object that rest_api takes: {"type": "bearer", "token": "…"}; also '
        "api_key, http_basic, oauth2_client_credentials.",
        width=Width.LONG,
        display_name="Sign-in",
    )
    .define(
        ARGUMENTS,
        ConfigType.STRING,
        None,
        group=_SOURCE,
        documentation="The arguments of a dlt source from an installed package, as a JSON object.",
        width=Width.LONG,
    )
    .define(
        SECRETS,
        ConfigType.PASSWORD,
        None,
        group=_SOURCE,
        documentation="Further arguments, as a JSON object that is shown to nobody.",
        width=Width.LONG,
    )
    .define(
        RESOURCES,
        ConfigType.LIST,
        [],
        group=_SOURCE,
        documentation="The resources to read. Default: all that the source selects.",
        width=Width.LONG,
    )
    .define(
        PREFIX,
        ConfigType.STRING,
        importance=Importance.HIGH,
        group=_SOURCE,
        documentation="The topic of a resource is this prefix and the resource's name.",
        display_name="Topic prefix",
    )
    .define(
        CHECKPOINT,
        ConfigType.STRING,
        PASS,
        validator=OneOf(PASS, PAGE),
        group=_READING,
        documentation="pass: all that one reading of a resource gives is one transaction, kept on disk until it is "
        "whole. page: each page is committed by itself; the API must give rows in the order of their cursor, and the "
        "incremental must say so with row_order=asc.",
    )
    .define(
        CHANGES,
        ConfigType.BOOLEAN,
        False,
        group=_READING,
        documentation="Of resources without an incremental, which are read as a whole each time, give only rows that "
        "are new or have changed since the last reading. They need a primary_key. Rows that are gone are not told.",
        display_name="Changes only",
    )
    .define(
        POLL_INTERVAL,
        ConfigType.INT,
        60_000,
        validator=Range(100),
        group=_READING,
        documentation="Milliseconds between two readings of a resource.",
    )
)
