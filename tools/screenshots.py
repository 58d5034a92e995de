"""`make screenshots`: docs/screenshots again, from a platform of its own that streams real flights for a while."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from ringfence.demo.flights import flights_file
from tests.e2e.browser import chromium as program
from tests.e2e.browser.visitor import NARROW, WIDE, Visitor
from tests.e2e.conftest import await_calm
from tests.e2e.rest import Json, Rest
from tests.e2e.up import Up
from tests.support.waiting import eventually

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
LIMIT_BYTES = 150_000
_SECONDS = 600
"""So long it streams before the first picture: curves and strips of the last hour have something to show then."""
_LINES_A_SECOND = 200
_COLOURS = 256

SHOTS = (
    ("overview-light", "/ui", WIDE, "light"),
    ("overview-narrow-dark", "/ui", NARROW, "dark"),
    ("connectors-light", "/ui/connectors", WIDE, "light"),
    ("connectors-dark", "/ui/connectors", WIDE, "dark"),
    ("connectors-narrow-light", "/ui/connectors", NARROW, "light"),
    ("connector-light", "/ui/connectors/flights", WIDE, "light"),
    ("connector-narrow-dark", "/ui/connectors/flights", NARROW, "dark"),
    ("connector-failed-dark", "/ui/connectors/weather", WIDE, "dark"),
    ("transactions-light", "/ui/connectors/payments/transactions", WIDE, "light"),
    ("transactions-dark", "/ui/connectors/payments/transactions", WIDE, "dark"),
    ("generations-light", "/ui/connectors/payments/generations", WIDE, "light"),
    ("new-dark", "/ui/new?class=FileStreamSource", WIDE, "dark"),
    ("fence-light", "/console/connectors/payments/fence/", WIDE, "light"),
)
"""File name, address, width and theme."""


class Airport:
    """Real flights, appended to a file as if they took off now."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._fly, daemon=True)

    def _fly(self) -> None:
        with flights_file().open("rb") as lines, self.file.open("ab", buffering=0) as out:
            while not self._over.wait(0.25):
                out.write(b"".join(islice(lines, _LINES_A_SECOND // 4)))

    def open(self) -> None:
        self.file.touch()
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()


def _verifiable(topic: str, throughput: int, tasks: int, interval_ms: int = 1000) -> Json:
    return {
        "connector.class": "VerifiableSource",
        "topic": topic,
        "throughput": str(throughput),
        "tasks.max": str(tasks),
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": str(interval_ms),
    }


def _file(file: Path, topic: str) -> Json:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, "tasks.max": "1"}


def _has_offsets(rest: Rest, name: str) -> bool:
    return bool(rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"])


def _failed(rest: Rest) -> bool:
    return bool(rest.status("weather")["tasks"][0]["state"] == "FAILED")


@contextmanager
def _world(folder: Path) -> Iterator[Up]:
    """A platform with two workers and six connectors, of which one has failed, one rests and one has a past.

    `folder`: of the files that are read; connectors show where they stand.
    """
    airport, weather = Airport(folder / "flights.csv"), folder / "weather.csv"
    data = tempfile.TemporaryDirectory()
    up = Up(Path(data.name), workers=2, settings={"CONNECT_FILE_ROOTS": str(folder)})
    try:
        up.start()
        await_calm(up)
        airport.open()
        weather.write_text("EWR,2013-01-01T01:00,39.02\nEWR,2013-01-01T02:00,39.02\n")
        rest = up.rest
        rest.create("flights", _file(airport.file, "flights"))
        rest.create("weather", _file(weather, "weather"))
        rest.create("payments", _verifiable("payments", 150, 2, 2500))
        rest.create("orders", _verifiable("orders", 300, 3))
        rest.create("inventory", _verifiable("inventory", 40, 1))
        rest.create("clicks", _verifiable("clicks", 900, 2))
        for name in ("flights", "weather", "payments", "orders", "inventory", "clicks"):
            eventually(partial(_has_offsets, rest, name), 180, f"offsets of {name}", pause=0.2)
        rest.settled(200, "PUT", "/connectors/payments/config", _verifiable("payments", 200, 3, 2500))
        rest.settled(200, "PUT", "/connectors/payments/config", _verifiable("payments", 250, 4, 2500))
        threading.Event().wait(_SECONDS * 2 / 3)
        weather.unlink()
        rest.settled(202, "PUT", "/connectors/inventory/pause")
        rest.settled(200, "PUT", "/connectors/orders/config", _verifiable("orders", 450, 3))
        eventually(lambda: _failed(rest), 180)
        eventually(lambda: rest.status("inventory")["connector"]["state"] == "PAUSED", 180)
        threading.Event().wait(_SECONDS / 3)
        yield up
    finally:
        airport.close()
        up.end()
        data.cleanup()


@contextmanager
def _sources() -> Iterator[Path]:
    """A folder with a name that may be seen."""
    parent = Path("/srv") if os.access("/srv", os.W_OK) else Path.home()
    folder = parent / "airport"
    folder.mkdir()  # never one that is there already
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _small(picture: bytes) -> bytes:
    """The same picture with a palette, in which what is small keeps its colour, too."""
    with Image.open(BytesIO(picture)) as image:
        out = BytesIO()
        reduced = image.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        reduced.save(out, "PNG", optimize=True)
        return out.getvalue()


def _shoot(browser: Browser, up: Up, name: str, address: str, width: int, theme: str) -> None:
    visitor = Visitor(browser, up.rest.url, width=width, theme=theme)
    eventually(lambda: _failed(up.rest), 180)  # between two of the attempts to start it again
    try:
        page = visitor.go(address)
        page.wait_for_load_state("load")
        if page.locator("[sse-connect]").count():
            visitor.await_live()
        picture = _small(page.screenshot(animations="disabled"))
        assert len(picture) < LIMIT_BYTES, f"{name}: {len(picture)} bytes"
        assert visitor.complaints == []
        (FOLDER / f"{name}.png").write_bytes(picture)
        print(f"{name}.png: {len(picture):,} bytes")
    finally:
        visitor.close()


def main() -> None:
    """All pictures, or none where one cannot be had."""
    path = program.find()
    if path is None:
        raise SystemExit(f"There is no Chromium on the PATH: {program.HOW_TO_INSTALL}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _sources() as folder, _world(folder) as up, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(program.ARGUMENTS))
        for shot in SHOTS:
            _shoot(browser, up, *shot)
        browser.close()


if __name__ == "__main__":
    main()
