"""The frame of every page: who is offered which link, the groups of a connector's tabs, the scale of type."""

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import get_resolver

from ringfence.access.principal import EVERYBODY_HERE, NOBODY, Principal, Right
from ringfence.access.verbs import ROLES, Verb
from ringfence.projection.models import Connector
from ringfence.web.connector.tab_groups import GROUPS, TABS, tab_groups
from ringfence.web.navigation import navigation
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

STYLES = Path(__file__).resolve().parents[2] / "static" / "ringfence"
VIEWER = Principal("ann", "session", (Right(ROLES["viewer"], "team-*"),))


def words(who: Principal) -> set[str]:
    return {item.link.word for _, links in navigation(who, "/ui/") for item in links}


def test_everybody_is_offered_what_they_may_open() -> None:
    everything = words(EVERYBODY_HERE)
    assert words(NOBODY) == set()
    assert everything - words(VIEWER) == {"Accounts", "Roles", "Tokens"}
    assert "Audit trail" not in words(Principal("bob", "session", (Right(frozenset({Verb.VIEW})),)))


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/ui", "Overview"),
        ("/ui/", "Overview"),
        ("/ui/connectors/a/tasks", "Connectors"),
        ("/ui/new", "Connectors"),
        ("/ui/connectors-of-old", ""),
        ("/console/", "Operations"),
        ("/console/transactions/", "Transactions"),
        ("/console/connectors/a/fence/", "Connectors"),
        ("/console/accounts/new/", "Accounts"),
        ("/console/audit/auditentry/3/change/", "Audit trail"),
    ],
)
def test_one_link_says_where_the_reader_is(path: str, word: str) -> None:
    here = [item.link.word for _, links in navigation(EVERYBODY_HERE, path) for item in links if item.current]
    assert here == ([word] if word else [])


def test_each_tab_is_in_a_group_and_has_an_address() -> None:
    assert {tab.group for tab in TABS} == {key for key, _, _ in GROUPS}
    assert len({tab.key for tab in TABS}) == len(TABS)
    postgres = Connector(name="a", class_name="PostgresSource")
    for tab in TABS:
        get_resolver().resolve(f"/ui/connectors/a/{tab.key}".rstrip("/"))
        assert [group.key for group in tab_groups(tab.key, postgres) if group.current] == [tab.group]


def test_a_tab_is_there_only_for_the_connectors_that_it_is_for() -> None:
    def keys(class_name: str) -> set[str]:
        row = Connector(name="a", class_name=class_name)
        return {tab.key for group in tab_groups("", row) for tab in group.tabs}

    postgres = keys("PostgresSource")
    assert postgres == keys("connectors.builtin.postgres.connector.PostgresSourceConnector") == {t.key for t in TABS}
    assert postgres - keys("VerifiableSource") == {"snapshots"}


def test_a_tab_shows_its_group_and_its_neighbours(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=1)
    page = text(client.get("/ui/connectors/flights/offsets"))
    assert re.findall(r'id="group-([\w-]+)"[^>]*aria-current="true"', page) == ["data"]
    assert re.findall(r'id="tab-([\w-]+)" *href', page) == ["topics", "offsets", "dead-letters"]
    assert re.findall(r'id="tab-([\w-]+)"[^>]*aria-current="page"', page) == ["offsets"]


def test_type_has_five_sizes_and_motion_is_short() -> None:
    for sheet in STYLES.glob("*.css"):
        style = sheet.read_text()
        assert re.findall(r"font(?:-size)?:[^;{}]*\d(?:px|rem)[^;{}]*;", style) == [], sheet.name
    tokens = dict(re.findall(r"--([\w-]+): (\d+)(?:px|ms);", (STYLES / "frame.css").read_text()))
    assert [int(tokens[size]) for size in ("small", "text-size", "lead", "title", "display")] == [12, 13, 15, 20, 28]
    assert 120 <= int(tokens["quick"]) <= int(tokens["slow"]) <= 180
    assert "prefers-reduced-motion: reduce" in (STYLES / "ringfence.css").read_text()


def test_the_font_is_small_and_has_its_licence() -> None:
    assert (STYLES / "fonts" / "inter.woff2").stat().st_size < 60_000
    assert "SIL OPEN FONT LICENSE" in (STYLES / "fonts" / "LICENSE.txt").read_text()
