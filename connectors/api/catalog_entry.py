"""What the catalog shows about a connector before it is configured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Category(StrEnum):
    """Where the records come from."""

    DATABASES = "Databases"
    FILES = "Files"
    KAFKA = "Kafka"
    APPLICATIONS = "Applications"
    TESTS = "Tests"
    OTHER = "Other"


class Guarantee(StrEnum):
    """What the connector promises at best. A configuration may promise less: `exactly_once_support` says so."""

    EXACTLY_ONCE = "Exactly once"
    EXACTLY_ONCE_WITHIN_WINDOW = "Exactly once within a window"
    AT_LEAST_ONCE = "At least once"
    UNKNOWN = "Not stated"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """title and summary: one line each, for people who search for a source by name.

    goes_back: whether it can read its data again after its source offsets are reset. needs: what must exist before it
    runs, one sentence each. sample: a configuration to start from, without `name` and `connector.class`.
    """

    title: str
    summary: str
    category: Category = Category.OTHER
    guarantee: Guarantee = Guarantee.UNKNOWN
    goes_back: bool = True
    needs: Sequence[str] = ()
    sample: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return the entry as JSON, for the plugin process's answer."""
        return {
            "title": self.title,
            "summary": self.summary,
            "category": self.category.value,
            "guarantee": self.guarantee.value,
            "goes_back": self.goes_back,
            "needs": list(self.needs),
            "sample": dict(self.sample),
        }
