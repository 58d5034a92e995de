"""The order of the documents in their list."""

from collections.abc import Iterable
from typing import Final

from ringfence.web.handbook.documents import Document

GROUPS: Final = {
    "Learn": ("new-connector", "pages", "writing-a-connector"),
    "Connect a source": (
        "postgres", "sql", "files", "webhooks", "dlt", "kafka-connect-plugins", "share-groups", "big-tables", "pyspark",
        "spark-sink",
    ),
    "Run it": (
        "deployment", "kubernetes", "operations", "upgrades", "monitoring", "access", "alerts", "gitops",
        "dead-letters", "backup", "disaster-recovery",
    ),
    "Look up": ("connectors", "command-line", "rest-api", "api-v1", "glossary"),
    "Understand": ("exactly-once", "benchmarks"),
}  # fmt: skip
"""Names of documents by what a reader wants, and in the order in which readers need them."""


def group(documents: Iterable[Document]) -> list[tuple[str, list[Document]]]:
    """Return the title of each group with its documents."""
    by_name = {document.name: document for document in documents}
    groups = [(title, [by_name[name] for name in names if name in by_name]) for title, names in GROUPS.items()]
    return [(title, members) for title, members in groups if members]
