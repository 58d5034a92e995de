"""The Snapshots tab of a PostgresSource on a real server: read again, held, gone on with, ended; in both themes."""

from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser import axe
from tests.e2e.browser.visitor import NARROW, WIDE, Visitor
from tests.e2e.up import Up
from tests.support.postgres import LOGICAL, Postgres, new_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 20_000
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with new_postgres(LOGICAL) as server:
        yield server


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("snapshots"), workers=1, settings={"CONNECT_EGRESS_ALLOW": "loopback"}) as up:
        yield up


@pytest.fixture
def visitor(chromium: Browser, alone: Up) -> Iterator[Visitor]:
    made = Visitor(chromium, alone.rest.url)
    yield made
    made.close()
    assert made.complaints == []


def test_tables_are_read_again_from_the_page(visitor: Visitor, alone: Up, postgres: Postgres) -> None:
    visitor.tolerate_refusal(400)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id integer PRIMARY KEY, v integer)")
        connection.execute(f"INSERT INTO orders SELECT g, 0 FROM generate_series(1, {ROWS}) g".encode())
        connection.execute("CREATE TABLE lines (id integer PRIMARY KEY)")
        connection.execute("ANALYZE")
    alone.rest.create("shop", make_config(postgres))
    page = visitor.go("/ui/connectors/shop/snapshots")
    visitor.await_live()
    initial = page.get_by_role("region", name="Initial snapshot")
    expect(initial.get_by_text("Complete")).to_be_visible(timeout=120_000)
    expect(initial.get_by_role("row").filter(has_text="public.orders")).to_contain_text("20,000")
    look(visitor, page)

    incremental = page.get_by_role("region", name="Incremental snapshot")
    question = page.get_by_role("dialog")
    incremental.get_by_role("link", name="Read tables").click()
    question.get_by_label("Tables").fill("public\\.(")
    question.get_by_role("button", name="Start").click()
    expect(question).to_contain_text("is not a regular expression")
    look(visitor, page)
    question.get_by_label("Tables").fill("public\\.(orders|lines)")
    question.get_by_role("button", name="Start").click()
    pause = incremental.get_by_role("button", name="Pause")
    pause.click()
    expect(incremental.get_by_text("Paused", exact=True)).to_be_visible()
    expect(page.locator("#snapshot-note")).to_contain_text("Paused.")
    look(visitor, page)

    incremental.get_by_role("button", name="Resume").click()
    expect(pause).to_be_visible()
    incremental.get_by_role("link", name="Stop").click()
    expect(question).to_contain_text("Stop the incremental snapshot?")
    look(visitor, page)
    question.get_by_role("button", name="Stop").click()
    expect(page.locator("#snapshot-note")).to_contain_text("Stopped: ")
    expect(incremental.get_by_text("Nothing is being read")).to_be_visible()

    initial.get_by_role("link", name="Read public.lines again").click()
    question.get_by_role("button", name="Start").click()
    expect(page.locator("#snapshot-note")).to_contain_text("public.lines is empty.")


def look(visitor: Visitor, page: Page) -> None:
    """Nothing that a program finds wrong, wide and narrow, light and dark."""
    found = axe.both_themes(page)
    page.set_viewport_size({"width": NARROW, "height": 800})
    found += axe.sizes(page)
    assert visitor.overflow() == 0, visitor.what_overflows()
    page.set_viewport_size({"width": WIDE, "height": 900})
    assert found == [], "\n".join(found)


def make_config(postgres: Postgres) -> dict[str, str]:
    """Chunks so small that a table takes a while."""
    return {
        "connector.class": "PostgresSource",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "ringfence",
        "database.dbname": "ringfence",
        "topic.prefix": "shop",
        "slot.name": "shop",
        "snapshot.range.rows": "5000",
        "incremental.snapshot.chunk.size": "10",
        "transaction.boundary": "connector",
        **{f"{which}.converter": JSON for which in ("key", "value")},
        **{f"{which}.converter.schemas.enable": "false" for which in ("key", "value")},
    }
