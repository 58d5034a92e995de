"""Metrics that a source task reports itself, such as its lag behind the source."""

from collections.abc import Mapping
from typing import Protocol


class Gauge(Protocol):
    """A number that can go up and down. Any thread may set it."""

    def set(self, value: float | None) -> None:
        """Set the current value. None, or a number that is not finite, means unknown: no older value is shown."""
        ...


class SourceMetrics(Protocol):
    """A task's own metrics. They appear on the connector's page, in alerts, and as `ringfence_source_<name>` at
    `/metrics`.

    They are reported every few seconds while the task runs. A task can report at most 100.
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
        """Return the gauge with this name and these labels. A second call returns the same gauge with the new
        description.

        name: lower case letters, digits and `_`. description: one sentence, without a full stop. unit: `bytes`,
        `seconds`, ..., appended to the name at `/metrics` unless it already ends so. labels: at most four, not
        `connector` or `task`. limit: a value above it is a problem, which alert rules of the kind `source-metric`
        report; remedy: what to do then. Raises `ValueError` for an invalid name. Do not use secrets: everybody who may
        see the connector sees all of this.
        """
        ...
