"""What SqlSource contributes to the platform: the documentation of its settings, and what becomes of the
JDBC source connector's."""

from typing import Final

from ringfence.connectors.sdk.features import Features
from ringfence.connectors.sdk.foreign_names import NO_EFFECT, ForeignNames

_IGNORED: Final = {
    **dict.fromkeys(
        ("catalog.pattern", "connection.attempts", "connection.backoff.ms", "quote.sql.identifiers",
         "transaction.isolation.mode"),
        NO_EFFECT,
    ),
    "dialect.name": "the dialect follows from connection.url. Remove it.",
    "table.types": "tables and views are read. Remove it, or name the tables in table.whitelist.",
}  # fmt: skip

FEATURES: Final = Features(
    foreign_names=ForeignNames({"numeric.precision.mapping": "numeric.mapping=precision_only"}, ignored=_IGNORED),
    sections=[(r"mode|(incrementing|timestamp)\..*", "sql#which-mode-misses-nothing", "Which mode misses nothing")],
)
