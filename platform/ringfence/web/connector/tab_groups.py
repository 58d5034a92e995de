"""The tabs of a connector in five groups, so that somebody finds one by what it is about."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.api.incremental_snapshots import takes_snapshots
from ringfence.projection.models import Connector


def _has_every_connector(_row: Connector) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tab:
    """`key`: the last segment of its address, "" for the connector's own; `group`: of GROUPS; `is_for`: the connectors
    that have it. Its views are in the module of `web.connector` with its name, which lists them in `urlpatterns`.
    """

    key: str
    word: str
    group: str
    is_for: Callable[[Connector], bool] = _has_every_connector

    @property
    def module(self) -> str:
        """Imported by its name, as the tabs' modules import this one."""
        return f"ringfence.web.connector.{self.key.replace('-', '_') or 'overview'}"


@dataclass(frozen=True, slots=True)
class TabGroup:
    """As a page shows it: `tabs` are its own, and its link leads to the first of them."""

    key: str
    word: str
    icon: str
    current: bool
    tabs: tuple[Tab, ...]


GROUPS = (
    ("overview", "Overview", "activity"),
    ("data", "Data", "database"),
    ("exactly-once", "Exactly once", "shield-check"),
    ("configuration", "Configuration", "sliders-horizontal"),
    ("activity", "Activity", "history"),
)
"""A key, a word and an icon each, in their order."""

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
    Tab("config", "Settings and versions", "configuration"),
    Tab("history", "History", "activity"),
    Tab("timeline", "Timeline", "activity"),
    Tab("logs", "Logs", "activity"),
)
"""A new tab is one line here, one module and its template."""
_BY_KEY = {tab.key: tab for tab in TABS}


def find_tab(key: str) -> Tab:
    """The tab with this address. A `KeyError` if there is none."""
    return _BY_KEY[key]


def tab_groups(key: str, row: Connector) -> list[TabGroup]:
    """The groups with this connector's tabs; current is the one that holds this tab."""
    here = _BY_KEY[key].group if key in _BY_KEY else ""
    tabs = [tab for tab in TABS if tab.is_for(row)]
    return [
        TabGroup(group, word, icon, group == here, tuple(tab for tab in tabs if tab.group == group))
        for group, word, icon in GROUPS
    ]
