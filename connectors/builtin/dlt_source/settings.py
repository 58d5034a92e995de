"""The settings of DltSource, and the names in its source partitions and offsets."""

import re
from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigException, Importance, InstalledChoices, NonEmpty, ShownIf
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


NO_LOGIN: Final = "none"
BEARER: Final = "bearer"
API_KEY: Final = "api_key"
HTTP_BASIC: Final = "http_basic"

NO_PAGES: Final = "none"
BY_NUMBER: Final = "number"
BY_OFFSET: Final = "offset"
BY_CURSOR: Final = "cursor"
BY_LINK: Final = "link"
BY_HEADER: Final = "link-header"
PAGE_STYLES: Final = (NO_PAGES, BY_NUMBER, BY_OFFSET, BY_CURSOR, BY_LINK, BY_HEADER)

_PATH: Final = re.compile(r"[^\s.*\[\]{}'\"`$?()]+(\.[^\s.*\[\]{}'\"`$?()]+)*")


def check_path(name: str, value: object) -> None:
    """Names of fields, with dots between them."""
    if value and not _PATH.fullmatch(str(value)):
        raise ConfigException.invalid(name, value, "Use names with dots between them, such as data.items")


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
URL: Final = _source.text(
    "rest.url",
    "The address of a list, such as https://api.example.com/v1/orders. The settings that begin with rest. describe its "
    "answer; Test in the form proposes them. For several lists, or what they cannot say, set rest.config instead.",
    None,
    recommender=_IF_REST,
    importance=Importance.HIGH,
    display_name="Address",
)
_IF_URL: Final = ShownIf(URL, bool)
LOGIN: Final = _source.choice(
    "rest.login",
    "How requests sign in: a bearer token, a key in a header (api_key), or user and password (http_basic).",
    (NO_LOGIN, BEARER, API_KEY, HTTP_BASIC),
    NO_LOGIN,
    recommender=ShownIf(SOURCE, lambda name: name == REST_API, NO_LOGIN, BEARER, API_KEY, HTTP_BASIC),
    importance=Importance.HIGH,
    display_name="Login",
)
LOGIN_NAME: Final = _source.text(
    "rest.login.name",
    "The user, or the header that takes the key.",
    None,
    recommender=ShownIf(LOGIN, lambda login: login in (API_KEY, HTTP_BASIC)),
    importance=Importance.HIGH,
    display_name="User or header",
)
LOGIN_SECRET: Final = _source.secret(
    "rest.login.secret",
    "The token, the key or the password.",
    recommender=ShownIf(LOGIN, lambda login: login not in ("", NO_LOGIN)),
    importance=Importance.HIGH,
    display_name="Token or password",
)
RECORDS: Final = _source.text(
    "rest.records",
    "Where the records are in the answer: names with dots between them, as data.items. Default: the answer itself.",
    "",
    validator=check_path,
    recommender=_IF_URL,
    importance=Importance.HIGH,
    display_name="Records",
)
PAGES: Final = _source.choice(
    "rest.pages",
    "How the next page is requested: none, by its number, by the offset of its first record, by a cursor in the "
    "answer, by a link in the answer, or by the Link header.",
    PAGE_STYLES,
    NO_PAGES,
    recommender=ShownIf(URL, bool, *PAGE_STYLES),
    importance=Importance.HIGH,
    display_name="Pages",
)
PAGE_PARAM: Final = _source.text(
    "rest.page.param",
    "The parameter of the address for the number, the offset or the cursor.",
    None,
    recommender=ShownIf(PAGES, lambda pages: pages in (BY_NUMBER, BY_OFFSET, BY_CURSOR)),
    importance=Importance.HIGH,
    display_name="Parameter of pages",
)
PAGE_FIRST: Final = _source.integer(
    "rest.page.first",
    "The number of the first page.",
    1,
    0,
    recommender=ShownIf(PAGES, lambda pages: pages == BY_NUMBER),
    display_name="First page",
)
PAGE_SIZE: Final = _source.integer(
    "rest.page.size",
    "The number of records in a page.",
    100,
    1,
    recommender=ShownIf(PAGES, lambda pages: pages == BY_OFFSET),
    importance=Importance.HIGH,
    display_name="Records in a page",
)
PAGE_SIZE_PARAM: Final = _source.text(
    "rest.page.size.param",
    "The parameter of the address for the number of records in a page.",
    "limit",
    validator=NonEmpty(),
    recommender=ShownIf(PAGES, lambda pages: pages == BY_OFFSET),
    display_name="Parameter of the page's size",
)
NEXT: Final = _source.text(
    "rest.page.next",
    "Where the cursor or the link of the next page is in the answer: names with dots between them.",
    None,
    validator=check_path,
    recommender=ShownIf(PAGES, lambda pages: pages in (BY_CURSOR, BY_LINK)),
    importance=Importance.HIGH,
    display_name="Next page",
)
KEY: Final = _source.text(
    "rest.key",
    "The field that identifies a record. It becomes the record's key.",
    None,
    recommender=_IF_URL,
    importance=Importance.HIGH,
    display_name="Key",
)
CURSOR: Final = _source.text(
    "rest.cursor",
    "The field with the time or number of a record's last change. Only records behind the last one are delivered. "
    "Without it, each reading is a whole one; see changes.only.",
    None,
    validator=check_path,
    recommender=_IF_URL,
    importance=Importance.HIGH,
    display_name="Cursor",
)
CURSOR_PARAM: Final = _source.text(
    "rest.cursor.param",
    "The parameter of the address that takes the cursor, if the API has one: it then returns only newer records.",
    None,
    recommender=ShownIf(CURSOR, bool),
    importance=Importance.HIGH,
    display_name="Parameter of the cursor",
)
CURSOR_START: Final = _source.text(
    "rest.cursor.start",
    "The first value of the cursor, such as 2026-01-01T00:00:00Z or 0. Default: all records.",
    None,
    recommender=ShownIf(CURSOR, bool),
    importance=Importance.HIGH,
    display_name="First value of the cursor",
)
REST: Final = _source.text(
    "rest.config",
    "The API, as the JSON object that dlt's rest_api expects: client, resource_defaults, "
    "resources. It is visible to all who may view the connector: credentials belong in rest.auth.",
    None,
    recommender=_IF_REST,
    display_name="REST API as JSON",
)
AUTH: Final = _source.secret(
    "rest.auth",
    'The credentials, as the JSON object that rest_api expects: {"type": "bearer", "token": "…"}; '
    "also api_key, http_basic, oauth2_client_credentials.",
    recommender=_IF_REST,
    display_name="Sign-in as JSON",
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
