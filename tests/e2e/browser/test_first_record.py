"""A newcomer's way to the first record: each kind of source, from Home to a record in Kafka, in clicks and seconds.

The form asks only for what reaches the source. A test proposes all else, and shows the first records.
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Locator, Page, expect

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.e2e.browser.visitor import Visitor
from tests.e2e.up import Up
from tests.support.broker import running_kafka
from tests.support.debezium_stage import orders_postgres
from tests.support.names import unique
from tests.support.orders_api import OrdersApi
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

MOST_CLICKS = 12
MOST_SECONDS = 60.0
"""On a quiet machine."""
_PATIENCE = 180.0


class Hand:
    """The newcomer's mouse and keyboard. clicks: who types into a field has clicked into it, who chooses has twice."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def fill(self, setting: str, value: str) -> None:
        box = self.page.locator(f"[name='setting:{setting}']")
        if box.evaluate("box => box.matches('select')"):
            box.select_option(value)  # a list that is open in a browser without a window takes no key
            self.clicks += 2
        else:
            self.click(box)
            box.fill(value)
            box.press("Tab")
        expect(self.page.locator("#new .htmx-request")).to_have_count(0)  # the form has what belongs to that value


@dataclass(frozen=True, slots=True)
class Source:
    """card: its title in the catalog; settings: what the newcomer fills in; shows: what the newest record has; answer:
    what a test of the connection says, "" if there is nothing to test; first: what the first record has; search: finds
    a plugin that is not installed, "" for one that is; give: makes the source give the record, if it must be asked to.
    """

    card: str
    settings: Mapping[str, str]
    shows: str
    answer: str = ""
    first: str = ""
    search: str = ""
    give: Callable[[Hand], None] = field(default=lambda _: None)


@contextmanager
def text_file(folder: Path, name: str) -> Iterator[Source]:
    file = folder / f"{name}.txt"
    file.write_text("an apple\na pear\n")
    yield Source("One text file", {"file": str(file)}, "a pear", "16 bytes so far")


@contextmanager
def sqlite(folder: Path, name: str) -> Iterator[Source]:
    file = folder / f"{name}.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
        database.execute("INSERT INTO orders VALUES (1, 'an apple'), (2, 'a pear')")
        database.commit()
    yield Source("SQL tables by queries", {"connection.url": f"sqlite:///{file}"}, "a pear", "SQLite, 1 table: orders.")


@contextmanager
def csv_folder(folder: Path, name: str) -> Iterator[Source]:
    (folder / name).mkdir()
    (folder / name / "fruit.csv").write_text("id,item\n1,an apple\n2,a pear\n")
    card = "Files of a folder, S3, Google Cloud, Azure or SFTP"
    yield Source(card, {"url": str(folder / name)}, "a pear", "1 file: fruit.csv.")


@contextmanager
def rest_api(_folder: Path, name: str) -> Iterator[Source]:
    with OrdersApi() as api:
        api.add(3)
        answer = "3 records under data; pages by offset; cursor updated_at."
        yield Source("REST APIs and dlt sources", {"rest.url": f"{api.url}{name}"}, "updated_at", answer)


@contextmanager
def webhook(_folder: Path, name: str) -> Iterator[Source]:
    def give(hand: Hand) -> None:
        """Copy the address into the sender, which sends until it is answered with success."""
        hand.page.context.grant_permissions(["clipboard-write"])  # as a browser with a window does
        hand.click(hand.page.locator("#hook").get_by_role("button", name="Copy"))
        address, sent = hand.page.locator("#hook-url").inner_text(), {"id": "1", "item": "a pear"}
        eventually(lambda: httpx.post(address, json=sent, timeout=20).is_success, _PATIENCE, pause=0.3)

    settings = {"signature": "none", "idempotency.key": "body:/id"}
    yield Source("Webhooks", settings, "a pear", "Senders use http://", "an example", give=give)


@contextmanager
def kafka_topic(folder: Path, name: str) -> Iterator[Source]:
    """A cluster with one topic; the records go to the platform's own, which is named nowhere."""
    with running_kafka(folder / name) as kafka:
        create_topics(Connection(kafka.bootstrap), [TopicSpec("fruit")], Deadline.after(30))
        pen = Producer({"bootstrap.servers": kafka.bootstrap})
        for fruit in (b"an apple", b"a pear"):
            pen.produce("fruit", fruit)
        assert pen.flush(30) == 0
        answer = "1 topic: fruit (1 partition)."
        yield Source(
            "Topics of a Kafka cluster", {"source.cluster.bootstrap.servers": kafka.bootstrap}, "a pear", answer
        )


def _connection(server: Postgres) -> dict[str, str]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
    }


@contextmanager
def _orders(card: str, answer: str, search: str = "") -> Iterator[Source]:
    with orders_postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("insert into orders(customer) values ('a pear')")
        yield Source(card, _connection(server), "a pear", answer, '"customer":"c1"', search)


def postgres(folder: Path, name: str) -> AbstractContextManager[Source]:
    return _orders("PostgreSQL changes", "1 table: public.orders.")


def debezium(folder: Path, name: str) -> AbstractContextManager[Source]:
    answer = "finds nothing wrong with these settings"
    return _orders("PostgreSQL changes, by Debezium", answer, "postgres debezium")


Kind = Callable[[Path, str], AbstractContextManager[Source]]


@pytest.fixture
def installation(request: pytest.FixtureRequest, kind: Kind, tmp_path: Path) -> Iterator[Up]:
    """Where nothing of the source exists yet: the shared platform, or for a plugin to install one without plugins."""
    if kind is not debezium:
        yield request.getfixturevalue("platform")
        return
    with Up(tmp_path / "data") as up:
        yield up


@pytest.fixture
def newcomer(chromium: Browser, installation: Up) -> Iterator[Visitor]:
    made = Visitor(chromium, installation.rest.url)
    yield made
    made.close()
    assert made.complaints == []


def expect_preview(page: Page, text: str) -> None:
    """Wait for the first records. On a machine where a plugin's process takes too long, they are requested again."""
    preview, deadline = page.locator("#preview"), Deadline.after(_PATIENCE)
    while not deadline.expired:
        expect(preview).to_contain_text(re.compile(f"{re.escape(text)}|machine is busy"), timeout=_PATIENCE * 1000)
        if text in preview.inner_text():
            return
        page.get_by_role("button", name="Preview", exact=True).click()
        expect(page.locator("#new .htmx-request")).to_have_count(0, timeout=_PATIENCE * 1000)
    raise AssertionError(f"no record with {text!r}: {preview.inner_text()}")


def choose(hand: Hand, source: Source) -> None:
    """Choose the source in the catalog, and install it first where it is not installed."""
    if source.search:
        box = hand.page.get_by_role("searchbox", name="Search the plugins")
        hand.click(box)
        box.fill(source.search)
        hand.click(hand.page.get_by_role("button", name=f"Install {source.card}, and create a connector"))
    else:
        hand.click(hand.page.locator("a.plugin").filter(has=hand.page.get_by_text(source.card, exact=True)))
    expect(hand.page.get_by_role("heading", level=1)).to_have_text(source.card, timeout=_PATIENCE * 1000)


def await_age(up: Up, name: str, since_ms: float) -> None:
    """Each kind of source tells as of when its data is: a moment after this one."""

    def as_of_ms() -> int:
        return int(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["data_as_of_ms"])

    eventually(lambda: as_of_ms() > since_ms, _PATIENCE, lambda: f"as of {as_of_ms()}, not {since_ms:.0f}", pause=0.3)


def slowness() -> float:
    """By how much longer everything takes while others work on this machine, too."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.parametrize(
    "kind",
    [
        text_file,
        sqlite,
        csv_folder,
        rest_api,
        webhook,
        pytest.param(kafka_topic, marks=pytest.mark.thorough),
        pytest.param(postgres, marks=pytest.mark.slow),
        pytest.param(debezium, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
    ids=lambda kind: kind.__name__,
)
def test_the_first_record_takes_a_minute_and_a_dozen_clicks(
    newcomer: Visitor, installation: Up, kind: Kind, tmp_path: Path, stopwatch: Callable[[str, float], None]
) -> None:
    name = unique("first")
    with kind(tmp_path, name) as source:
        page = newcomer.go("/ui/")
        began, began_ms, hand = time.monotonic(), time.time() * 1000, Hand(page)
        try:
            hand.click(page.get_by_role("link", name="New connector").first)
            choose(hand, source)
            expect(page.locator("#card-source .field :focus")).to_have_count(1)
            for setting, value in source.settings.items():
                hand.fill(setting, value)
            if source.answer:
                hand.click(page.get_by_role("button", name="Test", exact=True))
                expect(page.locator("#tested")).to_contain_text(source.answer)
                expect_preview(page, source.first or source.shows)
            name = page.locator("#in-name").input_value()
            hand.click(page.get_by_role("button", name="Create connector"))
            expect(page.get_by_role("heading", level=1)).to_have_text(name, timeout=_PATIENCE * 1000)
            source.give(hand)
            topic = page.locator("#writes-to a").first
            expect(topic).to_be_visible(timeout=_PATIENCE * 1000)
            hand.click(topic)
            expect(page.locator("#records")).to_contain_text(source.shows, timeout=_PATIENCE * 1000)
            seconds = time.monotonic() - began
            await_age(installation, name, began_ms)
        finally:
            installation.rest.call("DELETE", f"/connectors/{name}")
    stopwatch(f"first record by {hand.clicks} clicks", seconds)
    assert hand.clicks <= MOST_CLICKS
    assert seconds <= MOST_SECONDS * slowness()
