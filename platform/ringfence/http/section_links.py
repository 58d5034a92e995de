"""Which section of the documentation explains a setting, an error or a check.

Titles are stored with the addresses, so that a form reads no documents. A test checks each of them.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from ringfence.connectors.sdk.features import features_of


@dataclass(frozen=True, slots=True)
class Reference:
    """section: document#anchor; title: its heading."""

    section: str
    title: str

    @property
    def address(self) -> str:
        return f"/ui/docs/{self.section}"


PREFLIGHT: Final = Reference("exactly-once#preflight-checks-before-a-connector-runs", "Preflight")
PERMISSIONS: Final = Reference("exactly-once#permissions", "Permissions")
TOPIC_DURABILITY: Final = Reference("exactly-once#topics-and-lost-brokers", "Topics and lost brokers")
CLIENTS: Final = Reference("exactly-once#client-settings", "Client settings")
FAILURES: Final = Reference("exactly-once#what-each-failure-looks-like", "What each failure looks like")
COMMON: Final = Reference("connectors#settings-of-all-connectors", "Settings of all connectors")
BAD_RECORDS: Final = Reference("connectors#bad-records", "Bad records")
MISSING_TOPICS: Final = Reference("connectors#missing-topics", "Missing topics")
RESTARTS: Final = Reference("operations#restarts", "Restarts")
TROUBLES: Final = Reference("operations#troubleshooting", "Troubleshooting")
CONFIG_FILES: Final = Reference("connectors#files-that-a-configuration-names", "Files that a configuration names")
CODE: Final = Reference("writing-a-connector#where-your-code-runs", "Where your code runs")
DEBEZIUM: Final = Reference("kafka-connect-plugins#debezium-for-postgresql-in-five-minutes", "Debezium for PostgreSQL")
SIZES: Final = Reference("deployment#sizing", "Sizing")
RAISED: Final = Reference("writing-a-connector#errors", "Errors of a connector")
_SHARE_CHECKS: Final = Reference("share-groups#preflight", "Preflight of share groups")
_OFFSETS_TOPIC: Final = Reference("operations#the-offsets-topic", "The offsets topic")

_Table = Sequence[tuple[str, Reference]]

SETTINGS: Final[_Table] = (
    (r"errors\..*", BAD_RECORDS),
    (r"topic\.creation\..*", MISSING_TOPICS),
    (r"(key|value|header)\.converter(\..*)?", Reference("connectors#converters", "Converters")),
    (r"predicates(\..*)?|transforms\..*\.(predicate|negate)", Reference("connectors#predicates", "Predicates")),
    (r"transforms(\..*)?", Reference("connectors#transforms", "Transforms")),
    (r"exactly\.once\.support", Reference("exactly-once#switching-it-on", "Switching it on")),
    (
        r"offsets\.storage\.topic",
        Reference("exactly-once#where-source-offsets-are-kept", "Where source offsets are kept"),
    ),
    (r"(producer|consumer|admin)\.override\..*", CLIENTS),
    (r"auto\.restart\..*", RESTARTS),
    (r"name|connector\..*|tasks\.max.*|transaction\.boundary.*|config\.action\.reload", COMMON),
)
"""Settings of every connector."""

CHECKS: Final[_Table] = (
    (r"share group.*|input topic .*", _SHARE_CHECKS),
    (r"durability of topic .*", TOPIC_DURABILITY),
    (r"offsets topic .*", _OFFSETS_TOPIC),
    (r"client settings|.*\.override\..*", CLIENTS),
    (r".*(Write|Read|Describe|Create|Alter|DescribeConfigs|AlterConfigs|ClusterAction) .*", PERMISSIONS),
    (r".*", PREFLIGHT),
)


def explain_setting(name: str, class_name: str) -> Reference | None:
    """Return the section about a setting; None for a setting of a plugin that is not documented here."""
    reference = _find(SETTINGS, name)
    if reference is not None or class_name.startswith("io.debezium."):
        return reference or DEBEZIUM
    short = class_name.rpartition(".")[2].removesuffix("Connector")
    if short not in _find_built_in():
        return None
    return _find(find_sections(short), name) or Reference(f"connectors#{short.lower()}", short)


def find_sections(connector: str) -> Sequence[tuple[str, Reference]]:
    """Return the sections about a built-in connector's own settings, beside its section in connectors.md."""
    return [(pattern, Reference(section, title)) for pattern, section, title in features_of(connector).sections]


def explain_check(name: str) -> Reference | None:
    """Return the section about a preflight check, by its name."""
    return _find(CHECKS, name)


@functools.cache
def _find_built_in() -> frozenset[str]:
    """Return the names of our own connectors."""
    entries = entry_points(group="ringfence.connectors")
    return frozenset(each.name for each in entries if each.dist is not None and each.dist.name == "ringfence")


def _find(table: _Table, name: str) -> Reference | None:
    return next((reference for pattern, reference in table if re.fullmatch(pattern, name)), None)
