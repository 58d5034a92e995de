"""An editor reads a topic with bombs in it, previews, filters and validates against what never answers: the worker, and
what others do on it, go on.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import end_offsets
from tests.security.end_to_end.site import Site
from tests.support import hostile_registry as bombs
from tests.support.hostile_registry import hostile_registry
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.timeout(500), pytest.mark.slow]

VICTIM_SECONDS, RECORDS_SECONDS = 2.0, 1.0
"""What another tenant's validation and its next records may take while the attack lasts, on a machine that is not busy
with anything else. There, both are a multiple of what they take without an attack, measured just before."""
MULTIPLE = 5.0


@pytest.fixture
def silent_database() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield server.getsockname()[1]


def verifiable(topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "VerifiableSource", "topic": topic, "throughput": "20", **more}


class Victim:
    """An administrator's connector, and how it fares."""

    def __init__(self, site: Site) -> None:
        self._site, self.topic = site, unique("victim")
        self.name = site.create(site.boss, **verifiable(self.topic))
        site.running(self.name)
        eventually(self.records, 60, "its first records", pause=0.2)
        self._worker = site.up.pid("worker-1")

    def records(self) -> int:
        limit = Deadline.after(30)
        _, partitions = topic_identity(self._site.up.connection, self.topic, limit)
        return sum(end_offsets(self._site.up.connection, self.topic, sorted(partitions), limit).values())

    def validate(self) -> float:
        """The seconds that a validation takes, which must succeed."""
        began = time.monotonic()
        config = {**verifiable(self.topic), "name": self.name}
        answer = self._site.boss.call("PUT", "/connector-plugins/VerifiableSource/config/validate", config)
        assert answer.status_code == 200, answer.text
        return time.monotonic() - began

    def next_records(self) -> float:
        """The seconds until more of its records are there."""
        before, began = self.records(), time.monotonic()
        eventually(lambda: self.records() > before, 20, "its records go on", pause=0.02)
        return time.monotonic() - began

    def fare(self) -> tuple[float, float]:
        """The slowest of five validations, and of five waits for its next records."""
        both = [(self.validate(), self.next_records()) for _ in range(5)]
        validations, records = zip(*both, strict=True)
        print(
            f"validations {[round(each, 2) for each in validations]}, records {[round(each, 2) for each in records]} s"
        )
        return max(validations), max(records)

    def fares_well(self, idle: tuple[float, float]) -> None:
        """idle: what `fare` returned without the attack."""
        validation, records = self.fare()
        assert validation < max(VICTIM_SECONDS, MULTIPLE * idle[0])
        assert records < max(RECORDS_SECONDS, MULTIPLE * idle[1])
        assert self._site.up.pid("worker-1") == self._worker, "the worker has not ended"


@pytest.fixture(scope="module")
def victim(site: Site) -> Victim:
    return Victim(site)


@contextlib.contextmanager
def under_attack(attack: Callable[[], httpx.Response], times: int) -> Iterator[list[int]]:
    """So many of these requests at once, repeated while the block lasts. Yields the answers' statuses."""
    statuses: list[int] = []
    over = False

    def go_on() -> None:
        while not over:
            statuses.append(attack().status_code)

    with ThreadPoolExecutor(times) as pool:
        work = [pool.submit(go_on) for _ in range(times)]
        try:
            time.sleep(1)  # an attack's beginning cannot be seen from outside
            yield statuses
        finally:
            over = True
        for each in work:
            each.result()


def test_bombs_in_a_topic_end_the_page_at_worst(site: Site, victim: Victim) -> None:
    topic = unique("team-a")
    own = site.create(site.editor, **verifiable(topic, throughput="1"))
    site.running(own)
    producer = Producer({"bootstrap.servers": site.up.bootstrap, **site.up.connection.settings})
    for bomb in (bombs.RECURSIVE, bombs.NULLS, bombs.UNPACKED, bombs.DRIP):
        producer.produce(topic, bombs.value(bomb))
    producer.produce(topic, b'"' + b"a" * 250_000 + b'"')
    assert producer.flush(60) == 0
    pages = f"/api/v1/topics/{topic}/records"
    eventually(lambda: site.editor.call("GET", pages).status_code == 200, 90, "the topic can be read", pause=0.5)
    hard = 'value like "*' + "a" * 300 + '*b"'
    with hostile_registry() as url:
        for query in ({"registry": url}, {"registry": url, "contains": "x"}, {"where": hard}):
            idle = victim.fare()
            with under_attack(lambda query=query: site.editor.call("GET", pages, params=query), 4) as statuses:  # type: ignore[misc]
                victim.fares_well(idle)
            assert set(statuses) <= {200, 429, 500, 503}, statuses
    plain = site.editor.expect(200, "GET", pages)
    assert len(plain["records"]) >= 5, "the records themselves are shown"


def test_previews_and_validations_against_what_never_answers(site: Site, victim: Victim, silent_database: int) -> None:
    config = {
        "name": unique("team-a"),
        "connector.class": "SqlSource",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{silent_database}/shop",
        "connection.user": "reader",
        "topic.prefix": "team-a.",
    }
    slow = {**verifiable("team-a.t", throughput="0"), "name": unique("team-a")}
    body = {"config": slow, "seconds": 15}
    idle = victim.fare()
    with under_attack(lambda: site.editor.call("POST", "/api/v1/preview", body), 10):
        victim.fares_well(idle)
        quick = {"config": {**verifiable("t"), "name": unique("quick")}, "records": 1, "seconds": 5, "fresh": True}
        answer = site.boss.started("POST", "/api/v1/preview", quick)
        assert answer.status_code == 200, answer.text
    path = "/connector-plugins/SqlSource/config/validate"
    with under_attack(lambda: site.editor.call("PUT", path, config), 12):
        victim.fares_well(idle)
        begun = site.boss.settled(201, "POST", "/connectors", {"name": unique("new"), "config": verifiable("t")})
        assert begun["name"]
