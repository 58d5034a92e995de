"""The pages about a connector, in five groups by subject: a group is one tab, which shows its other pages as sections
that open in place.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.api.v1.snapshots import takes_snapshots
from ringfence.projection.models import Connector


def _has_every_connector(_row: Connector) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tab:
    """key: the last segment of its address, "" for the connector's own page; group: one of `GROUPS`; is_for: whether a
    connector has it. The module of `web.connector` with its name has its views, and lists them in `urlpatterns`.
    """

    key: str
    word: str
    group: str
    is_for: Callable[[Connector], bool] = _has_every_connector

    @property
    def module(self) -> str:
        """Return its module, imported lazily because the tabs' modules import this one."""
        return f"ringfence.web.connector.{self.key.replace('-', '_') or 'overview'}"


@dataclass(frozen=True, slots=True)
class TabGroup:
    """A group for display. tabs: those it contains; its link leads to the first."""

    key: str
    word: str
    icon: str
    current: bool
    tabs: tuple[Tab, ...]


GROUPS = (
    ("overview", "Overview", "activity"),
    ("data", "Data", "database"),
    ("pipeline", "Pipeline", "sliders-horizontal"),
    ("exactly-once", "Exactly once", "shield-check"),
    ("history", "History", "history"),
)
"""The key, title and icon of each group, in display order."""

TABS = (
    Tab("", "Summary", "overview"),
    Tab("tasks", "Tasks", "overview"),
    Tab("topics", "Topics", "data"),
    Tab("offsets", "Offsets", "data"),
    Tab("snapshots", "Snapshots", "data", takes_snapshots),
    Tab("dead-letters", "Dead letters", "data"),
    Tab("transactions", "Transactions", "exactly-once"),
    Tab("generations", "Generations", "exactly-once"),
    Tab("proof", "Proof", "exactly-once"),
    Tab("config", "Settings and versions", "pipeline"),
    Tab("history", "Time axis", "history"),
    Tab("timeline", "Timeline", "history"),
    Tab("logs", "Logs", "history"),
)
"""To add a tab: one line here, one module and its template."""
_BY_KEY = {tab.key: tab for tab in TABS}


def find_tab(key: str) -> Tab:
    """Return the tab with this key. Raises `KeyError` if there is none."""
    return _BY_KEY[key]


def tab_groups(key: str, row: Connector) -> list[TabGroup]:
    """Return the groups with this connector's tabs. current: the group of this tab."""
    here = _BY_KEY[key].group if key in _BY_KEY else ""
    tabs = [tab for tab in TABS if tab.is_for(row)]
    return [
        TabGroup(group, word, icon, group == here, tuple(tab for tab in tabs if tab.group == group))
        for group, word, icon in GROUPS
    ]
