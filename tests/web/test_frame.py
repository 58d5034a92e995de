"""The frame of every page: who is offered which link, the groups of a connector's tabs, the scale of type."""

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import get_resolver

from ringfence.access.principal import EVERYBODY_HERE, NOBODY, ROLES, Principal, Right, Verb
from ringfence.projection.models import ActiveTopic, Connector
from ringfence.web.connector.tab_groups import GROUPS, TABS, tab_groups
from ringfence.web.navigation import find_navigation
from ringfence.web.old_addresses import find_new_address
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

STYLES = Path(__file__).resolve().parents[2] / "static" / "ringfence"
VIEWER = Principal("ann", "session", (Right(ROLES["viewer"], "team-*"),))


def words(who: Principal) -> dict[str, list[str]]:
    """The pages by place."""
    found = find_navigation(who, "/ui/")
    return {entry.place.word: [page.word for page, _ in entry.pages] for entry in (*found.main, *found.below)}


def test_there_are_five_places_to_work_and_two_below() -> None:
    found = find_navigation(EVERYBODY_HERE, "/ui/")
    assert [entry.place.word for entry in found.main] == ["Home", "Connectors", "Data", "Incidents", "Cluster"]
    assert [entry.place.word for entry in found.below] == ["Settings", "Help"]


def test_everybody_is_offered_what_they_may_open() -> None:
    assert words(NOBODY) == {}
    viewer = words(VIEWER)
    assert viewer["Settings"] == ["Sessions", "Audit trail"]
    assert viewer["Incidents"] == ["Open", "Silences"]
    assert words(Principal("bob", "session", (Right(frozenset({Verb.VIEW})),)))["Settings"] == ["Sessions"]
    everything = words(EVERYBODY_HERE)
    assert everything["Settings"] == ["People", "Roles", "Tokens", "Sessions", "Audit trail"]
    assert everything["Incidents"] == ["Open", "Rules", "Destinations", "Silences"]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/ui", "Home"),
        ("/ui/", "Home"),
        ("/ui/stuck", "Home"),
        ("/ui/connectors/a/tasks", "Connectors"),
        ("/ui/new", "Connectors"),
        ("/ui/connectors-of-old", ""),
        ("/ui/transactions", "Cluster"),
        ("/ui/connectors/a/fence", "Connectors"),
        ("/ui/leader/hand-over", "Cluster"),
        ("/ui/topics/a", "Data"),
        ("/ui/incidents/3", "Incidents"),
        ("/ui/settings/people/new", "Settings"),
        ("/ui/settings/audit/3", "Settings"),
        ("/api/docs", "Help"),
    ],
)
def test_one_link_says_where_the_reader_is(path: str, word: str) -> None:
    found = find_navigation(EVERYBODY_HERE, path)
    assert [entry.place.word for entry in (*found.main, *found.below) if entry.current] == ([word] if word else [])


@pytest.mark.parametrize(
    ("path", "tabs", "current"),
    [
        ("/ui/topics", ["Topics", "Consumer groups", "Share groups"], "Topics"),
        ("/ui/share-groups", ["Topics", "Consumer groups", "Share groups"], "Share groups"),
        ("/ui/workers", ["Workers and slots", "Open transactions", "Plugins", "Kafka's address"], "Workers and slots"),
        ("/ui/topics/orders", [], ""),
        ("/ui/connectors", [], ""),
    ],
)
def test_a_place_with_several_pages_shows_them_as_tabs(path: str, tabs: list[str], current: str) -> None:
    found = find_navigation(EVERYBODY_HERE, path).tabs
    assert [page.word for page, _ in found] == tabs
    assert "".join(page.word for page, here in found if here) == current


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/console", "/ui/"),
        ("/console/", "/ui/"),
        ("/console/stuck/", "/ui/stuck"),
        ("/console/connectors/?q=a", "/ui/connectors?q=a"),
        ("/console/connectors/a/fence/", "/ui/connectors/a/fence"),
        ("/console/connectors/a/restart/", "/ui/connectors/a/actions/restart"),
        ("/console/connectors/a/tasks/0/restart/", "/ui/connectors/a/tasks"),
        ("/console/connectors/a/transactions/", "/ui/connectors/a/coordinators"),
        ("/console/connectors/a/transactions/0/fence/", "/ui/connectors/a/transactions/0/fence"),
        ("/console/workers/w1/drain/", "/ui/workers/w1/drain"),
        ("/console/share-groups/g/alter/?to=earliest", "/ui/share-groups/g/alter?to=earliest"),
        ("/console/auth/user/", "/ui/settings/people"),
        ("/console/accounts/ann/grant/", "/ui/settings/people/ann/grant"),
        ("/console/access/token/", "/ui/settings/tokens"),
        ("/console/audit/auditentry/7/change/", "/ui/settings/audit/7"),
        ("/console/sessions/3/end/", "/ui/settings/sessions/3/end"),
        ("/ui/alerts", "/ui/incidents"),
        ("/ui/alerts/incidents/4", "/ui/incidents/4"),
        ("/ui/alerts/rules/new", "/ui/incidents/rules/new"),
    ],
)
def test_old_addresses_lead_to_the_new_ones(client: Client, old: str, new: str) -> None:
    answer = client.get(old)
    assert (answer.status_code, answer["location"]) == (301, new)
    assert client.post(old).status_code == 405


def test_a_name_with_a_slash_stays_one() -> None:
    assert find_new_address("console/connectors/a%2Fb/fence") == "/ui/connectors/a%2Fb/fence"


@pytest.mark.parametrize("address", ["/console/odd", "/console//example.org/", "/console/accounts/../../x"])
def test_what_never_was_an_address_leads_nowhere(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404 or answer["location"].startswith("/ui/")


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
    assert re.findall(r'<details[^>]*id="tab-([\w-]+)"', page) == ["topics", "dead-letters"]  # what opens below it
    part = {"HX-Request": "true", "HX-Target": "section-dead-letters"}
    section = text(client.get("/ui/connectors/flights/dead-letters", headers=part))
    assert "keeps no dead letters" in section
    assert "group-data" not in section


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


def test_the_palette_finds_what_people_type(client: Client, leader: FakeLeader) -> None:
    """In any order, in part, with letters left out, and by other words for it."""
    leader.config.config(connector("nums-orders", topic="nums-dead"))
    leader.start("nums-orders", tasks=1)
    ActiveTopic.objects.create(connector="nums-orders", topic="nums-dead", since_ms=5)

    def found(typed: str) -> list[tuple[str, str]]:
        page = text(client.get("/ui/find", {"q": typed}))
        return re.findall(r'href="([^"]+)".*?<span>([^<]*)</span>', page)

    act = "/ui/connectors/nums-orders/actions"
    for typed, address in (
        ("restart failed", f"{act}/restart-failed"),
        ("nums restart failed", f"{act}/restart-failed"),
        ("ord pause", f"{act}/pause"),
        ("new postgres", "/ui/new?class=PostgresSource"),
        ("password", "/ui/settings/people"),
        ("lag", "/ui/consumer-groups"),
        ("kafka address", "/ui/kafka"),
        ("bootstrap", "/ui/kafka"),
        ("slack", "/ui/incidents/destinations"),
        ("nums-dead", "/ui/topics/nums-dead"),
        ("nmsord", "/ui/connectors/nums-orders"),
        ("orders nums", "/ui/connectors/nums-orders"),
    ):
        assert address in [one for one, _ in found(typed)[:4]], (typed, found(typed))
    assert found("there is nothing of this name") == []
    assert "data-ask" in text(client.get("/ui/find", {"q": "pause nums"}))
