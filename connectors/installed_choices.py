"""A recommender of what installed packages declare."""

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from ringfence.connectors.api import Choices


class InstalledChoices(Choices):
    """Offers fixed values, and after them the names of the entry points of a group."""

    def __init__(self, group: str, *values: object) -> None:
        super().__init__(*values)
        self._group = group

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        return [*self.values, *sorted({point.name for point in entry_points(group=self._group)})]
