"""The tabs of a connector in five groups, so that somebody finds one by what it is about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tab:
    """`key`: the last segment of its address, "" for the connector's own; `group`: of GROUPS."""

    key: str
    word: str
    group: str


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
    Tab("dead-letters", "Dead letters", "data"),
    Tab("transactions", "Transactions", "exactly-once"),
    Tab("generations", "Generations", "exactly-once"),
    Tab("proof", "Proof", "exactly-once"),
    Tab("config", "Settings and versions", "configuration"),
    Tab("history", "History", "activity"),
    Tab("timeline", "Timeline", "activity"),
    Tab("logs", "Logs", "activity"),
)
"""A new tab is one line here and one file with its view."""


def tab_groups(key: str) -> list[TabGroup]:
    """The groups, with the one current that holds this tab."""
    here = next((tab.group for tab in TABS if tab.key == key), "")
    return [
        TabGroup(group, word, icon, group == here, tuple(tab for tab in TABS if tab.group == group))
        for group, word, icon in GROUPS
    ]
