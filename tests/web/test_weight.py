"""What a browser has to fetch for a page: everything, and no more than 90 kB of it, headers included."""

import gzip
import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

import ringfence
from ringfence.projection.models import Connector, Minute, Task, pack
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

MOST = 90_000
STATIC = Path(ringfence.__file__).parent / "static"
_HEAD = 90
"""Of what the server adds to each answer: its status line, the date, its name."""
ZIP = {"accept-encoding": "gzip"}


def body(response: Any) -> bytes:
    return b"".join(response) if response.streaming else bytes(response.content)


def weigh(response: Any) -> int:
    return len(body(response)) + _HEAD + sum(len(name) + len(value) + 4 for name, value in response.items())


@pytest.fixture
def fifty(leader: FakeLeader) -> FakeLeader:
    """A full page: fifty rows with numbers that differ in every second and minute."""
    for number in range(50):
        leader.config.config(connector(f"flights-{number}"))
    leader.project()
    now = int(time.time())
    for number, name in enumerate(Connector.objects.values_list("name", flat=True)):
        recent = [[now - second, (second * 7919 * (number + 1)) % 9973] for second in range(90, 0, -1)]
        Task.objects.create(connector=name, number=0, known=True, state="RUNNING", recent=pack(recent), since_ms=5)
        Minute.objects.bulk_create(
            Minute(connector=name, task=0, minute=now // 60 - ago, began="RUNNING", restarts=ago % 2,
                   state="FAILED" if ago * (number + 3) % 5 == 0 else "RUNNING")
            for ago in range(60)
        )  # fmt: skip
    Connector.objects.update(health="DEGRADED", severity=80, state="RUNNING", task_count=1, tasks_failed=1)
    return leader


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/connectors",
        "/ui/connectors/flights-1",
        "/ui/connectors/flights-1/history",
        "/ui/connectors/flights-1/edit",
        "/ui/new",
        "/ui/new?class=VerifiableSource",
        "/ui/workers",
        "/ui/stuck",
    ],
)
def test_a_page_with_all_that_it_needs_is_light(client: Client, fifty: FakeLeader, path: str) -> None:
    page = client.get(path, headers=ZIP)
    assert page["content-encoding"] == "gzip"
    html = gzip.decompress(page.content).decode()
    weight, files = weigh(page), re.findall(r'(?:src|href)="(/static/[^"]+)"', html)
    assert len(files) > 4
    for address in files:
        response = client.get(address, headers=ZIP)
        assert response.status_code == 200, address
        weight += weigh(response)
        response.close()
    assert weight < MOST
    assert len(html) < 160_000, "even without compression"


def test_the_second_visit_to_the_console_fetches_the_page_alone(client: Client, leader: FakeLeader) -> None:
    page = client.get("/ui/transactions", headers=ZIP)
    html = gzip.decompress(page.content).decode()
    assert len(page.content) < MOST / 10
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', html):
        first = client.get(address, headers=ZIP)
        again = client.get(address, headers={**ZIP, "if-modified-since": first["last-modified"]})
        assert first["cache-control"] == "max-age=3600, public", address
        assert (again.status_code, body(again)) == (304, b""), "and after that hour only its headers"
        for response in (first, again):
            response.close()


def test_a_compressed_file_is_the_file(client: Client) -> None:
    for name in ("ringfence/ringfence.css", "ringfence/live.js", "django_htmx/htmx-2.min.js"):
        plain, packed = (client.get(f"/static/{name}", headers=headers) for headers in ({}, ZIP))
        again = client.get(f"/static/{name}", headers=ZIP)
        assert "content-encoding" not in plain.headers
        assert gzip.decompress(body(packed)) == gzip.decompress(body(again)) == body(plain)
        assert "Accept-Encoding" in packed["vary"]
        assert int(packed["content-length"]) < int(plain["content-length"]) / 2
        for response in (plain, packed, again):
            response.close()


def test_our_files_come_without_comments_and_with_each_statement_on_its_line(client: Client) -> None:
    for name in ("ringfence/frame.css", "ringfence/new.js"):
        response = client.get(f"/static/{name}", headers=ZIP)
        served = gzip.decompress(body(response)).decode()
        response.close()
        source = (STATIC / name).read_text()
        assert len(served) < 0.9 * len(source), name
        assert re.search(r"^\s*(//|/\*)", served, re.MULTILINE) is None
        assert "".join(_code(source).split()) == "".join(served.split()), name


def _code(source: str) -> str:
    """A file without its comments, which have lines of their own in scripts."""
    without_blocks = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    return "\n".join(line for line in without_blocks.splitlines() if not line.strip().startswith("//"))


def test_no_string_of_a_script_goes_over_lines() -> None:
    """Its indentation would be lost in `shorten_js`."""
    for file in (STATIC / "ringfence").glob("*.js"):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            assert line.count("`") % 2 == 0, f"{file.name}:{number}"


def test_pages_are_padded_by_chance_and_streams_are_left_alone(client: Client, fifty: FakeLeader) -> None:
    sizes = {len(client.get("/ui/workers", headers=ZIP).content) for _ in range(12)}
    assert len(sizes) > 2
    assert "content-encoding" not in client.get("/ui/events", headers=ZIP).headers
    assert "content-encoding" not in client.get("/connectors", headers=ZIP).headers
    assert "<!DOCTYPE html>" in text(client.get("/ui/workers"))
