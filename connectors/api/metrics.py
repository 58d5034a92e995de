"""Metrics that a source task measures itself, such as how far it is behind its source."""

from collections.abc import Mapping
from typing import Protocol


class Gauge(Protocol):
    """One number that goes up and down. Any thread may set it."""

    def set(self, value: float | None) -> None:
        """The newest value; None (and what is not finite): it is not known now, and nobody is shown an old one."""
        ...


class SourceMetrics(Protocol):
    """A task's own metrics: on the connector's page, at `/metrics` as `ringfence_source_<name>`, in alerts.

    They are reported every few seconds while the task runs. At most 100 for a task; more are not reported.
    """

    def gauge(
        self,
        name: str,
        description: str,
        *,
        unit: str = "",
        labels: Mapping[str, str] | None = None,
        limit: float | None = None,
        remedy: str = "",
    ) -> Gauge:
        """The gauge of this name and these labels; asking again gives the same one, with what is said now.

        name: lower case letters, digits and `_`. description: one sentence for people, without a point. unit:
        `bytes`, `seconds`, ..., appended to the name at `/metrics` where it does not end so. labels: at most four, not
        `connector` or `task`. limit: a value above it is a problem, which alert rules of the kind `source-metric` find;
        remedy says what to do then. Raises `ValueError` for a name that cannot be one. No secrets: everybody who may
        see the connector sees all of this.
        """
        ...
