"""What many open pages ask for at once is made once, for all who may see the same, and never for other eyes."""

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from ringfence.access import tokens
from ringfence.access.models import Grant
from ringfence.projection.models import Connector
from ringfence.web.live import fragment_cache as fresh
from ringfence.web.live.fragment_cache import Fragment, FragmentCache
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

PARTS = ("/ui/", "/ui/connectors", "/ui/connectors?q=a", "/ui/connectors?row=team-a&row=other")
_PATIENCE = 20


@pytest.fixture(autouse=True)
def _outside() -> Iterator[None]:
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        yield


@pytest.fixture
def two(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    monkeypatch.setattr(fresh, "LONGEST_MS", 60_000)
    for name in ("team-a", "other"):
        leader.config.config(connector(name))
        leader.start(name, tasks=2)
    leader.project()
    return leader


def person(name: str, *grants: tuple[str, str], scope: str = "*") -> dict[str, str]:
    """Headers of somebody who asks for a part."""
    user = User.objects.create_user(name)
    for what, pattern in grants:
        Grant.objects.create(user=user, what=what, pattern=pattern)
    secret = tokens.create(user, "browser", ["admin"], scope)[1]
    return {"authorization": f"Bearer {secret}", "hx-request": "true"}


def at_least(path: str, at_ms: int) -> str:
    return f"{path}{'&' if '?' in path else '?'}at={at_ms}"


@pytest.mark.parametrize("path", PARTS)
def test_other_eyes_never_get_a_part_that_was_made_for_somebody(client: Client, two: FakeLeader, path: str) -> None:
    everything = person("ann", ("admin", "*"))
    a_team = person("bob", ("viewer", "team-*"))
    by_token = person("eve", ("admin", "*"), scope="team-*")
    address = at_least(path, int(time.time() * 1000))
    seen = {}
    for _ in range(2):  # in any order, with the others' parts already there
        for name, headers in (("ann", everything), ("bob", a_team), ("eve", by_token)):
            seen[name] = text(client.get(address, headers=headers))
    names = {name: set(re.findall(r"team-a|other", page)) for name, page in seen.items()}
    if path == "/ui/":
        totals = {name: re.findall(r'id="number-all" href="/ui/connectors">(\d+)', page) for name, page in seen.items()}
        assert totals == {"ann": ["2"], "bob": ["1"], "eve": ["1"]}
    else:
        assert names == {"ann": {"team-a", "other"}, "bob": {"team-a"}, "eve": {"team-a"}}


def test_what_may_be_done_is_told_to_each(client: Client, leader: FakeLeader) -> None:
    address = at_least("/ui/connectors", int(time.time() * 1000))
    pages = [
        text(client.get(address, headers=person(name, (role, "*"))))
        for name, role in (("ann", "editor"), ("bob", "viewer"), ("eve", "editor"))
    ]
    assert ["Create the first one" in page for page in pages] == [True, False, True]


@pytest.mark.parametrize("path", PARTS)
def test_people_who_may_see_the_same_share_one_part_that_tells_nothing_of_either(
    client: Client, two: FakeLeader, path: str
) -> None:
    ann, bob = (person(name, ("viewer", "team-*"), ("operator", "team-b")) for name in ("ann", "bob"))
    address = at_least(path, int(time.time() * 1000))
    first = client.get(address, headers=ann)
    Connector.objects.update(task_count=77)
    with CaptureQueriesContext(connection) as captured:
        second = client.get(address, headers=bob)
    assert first.content == second.content
    assert not [query for query in captured if "mirror_" in query["sql"]]
    for private in ("csrf", "ann", "bob"):
        assert private not in text(first).lower().replace("cannot", "")
    assert "Set-Cookie" not in first.headers


def test_one_thread_makes_a_part_and_the_others_wait_for_it() -> None:
    kept, asked, go = FragmentCache(), threading.Barrier(8), threading.Event()
    made: list[int] = []

    def make() -> str:
        made.append(1)
        assert go.wait(_PATIENCE)
        return "part"

    def ask() -> Fragment:
        asked.wait(_PATIENCE)
        return kept.get("key", 1, make)

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(ask) for _ in range(8)]
        while not made:
            time.sleep(0.001)
        other = threading.Thread(target=lambda: kept.get("another key", 1, lambda: "not held up"))
        other.start()
        other.join(_PATIENCE)
        assert not other.is_alive()
        go.set()
        parts = {id(each.result(_PATIENCE)) for each in waiting}
    assert (len(parts), len(made)) == (1, 1)


def test_who_waits_for_a_part_that_cannot_be_made_makes_it_and_who_wants_a_newer_one_does_not_wait() -> None:
    clock = [1000.0]
    kept, began, go = FragmentCache(lambda: clock[0]), threading.Event(), threading.Event()

    def fail() -> str:
        began.set()
        assert go.wait(_PATIENCE)
        raise OSError("the database is away")

    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(kept.get, "key", 1_000_000, fail)
        assert began.wait(_PATIENCE)
        waiting = threads.submit(kept.get, "key", 1_000_000, lambda: "made after all")
        assert kept.get("another", 1_000_001, lambda: "not held up").text == "not held up"
        clock[0] += 1
        assert kept.get("key", 0, lambda: "of its own").text == "of its own"
        clock[0] += fresh.LONGEST_MS / 1000 + 1
        go.set()
        with pytest.raises(OSError, match="away"):
            failing.result(_PATIENCE)
        assert waiting.result(_PATIENCE).text in ("made after all", "of its own")
    began.clear()
    go.clear()
    clock[0] += 1
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(kept.get, "key", int(clock[0] * 1000), fail)
        assert began.wait(_PATIENCE)
        clock[0] += 1
        assert kept.get("key", int(clock[0] * 1000), lambda: "newer").text == "newer"
        go.set()
        with pytest.raises(OSError, match="away"):
            late.result(_PATIENCE)
