"""The order of the documents in their list."""

from collections.abc import Iterable
from typing import Final

from ringfence.web.handbook.documents import Document

GROUPS: Final = {
    "Start": ("exactly-once", "new-connector", "pages", "glossary"),
    "Sources": (
        "connectors", "kafka-connect-plugins", "postgres", "sql", "files", "dlt", "webhooks", "share-groups",
        "big-tables", "pyspark", "spark-sink", "writing-a-connector",
    ),
    "Operations": ("deployment", "operations", "access", "alerts", "dead-letters", "backup"),
    "Interfaces": ("rest-api", "api-v1", "command-line"),
}  # fmt: skip
"""Names of documents, in the order in which readers need them."""


def group(documents: Iterable[Document]) -> list[tuple[str, list[Document]]]:
    """Return the title of each group with its documents. Measurements come last, with documents that
    have no group yet.
    """
    rest = {document.name: document for document in documents}
    groups = [(title, [rest.pop(name) for name in names if name in rest]) for title, names in GROUPS.items()]
    return [(title, members) for title, members in [*groups, ("Measurements", list(rest.values()))] if members]
