"""`make screenshots`: takes docs/screenshots again, from a separate platform that streams real flights for a while."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy
import numpy.typing
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ringfence.demo.job import flights_file
from ringfence.fencing.clock import Deadline
from tests.e2e.browser import chromium as program
from tests.e2e.browser.visitor import NARROW, WIDE, Visitor
from tests.e2e.conftest import await_calm
from tests.e2e.rest import Json, Rest
from tests.e2e.up import Up
from tests.support.waiting import eventually

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
LIMIT_BYTES = 150_000
_SECONDS = 600
"""How long it streams before the first picture, so that curves and strips of the last hour have content."""
_LINES_A_SECOND = 200
_COUNT_SECONDS = 300
_COLOURS = 256
_FILM_SIZE = (1000, 640)
_FILM_SECONDS = 120
_FILM_LIMIT_BYTES = 1_500_000
_EXACT = 208
"""So many of them are colours of the page; the others are spread."""


def _stay(_page: Page) -> None:
    """Do nothing: the page as it opens."""


def _add_transforms(page: Page) -> None:
    page.get_by_role("textbox", name="Name required").fill("signups")
    page.get_by_label("Topic required").fill("signups")
    for words, fields in (("mask value", {"fields required": "email"}), ("rename topic", {"regex required": "(.*)"})):
        page.locator("#add-transform summary").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#menu-search")).to_be_focused()
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        for label, value in fields.items():
            page.get_by_label(label).fill(value)
    page.locator("[name$='regexRouter.replacement']").fill("$1-masked")
    page.locator("#trial summary").click()
    page.locator("#sample").fill('{"topic": "signups", "value": {"name": "Ann", "email": "ann@example.com"}}')
    expect(page.locator(".step").last.locator(".plus")).to_contain_text("-masked")
    page.locator(".step").first.evaluate("step => step.scrollIntoView({block: 'start'})")
    page.evaluate("window.scrollBy(0, -80)")


def _search(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.locator("#palette-q").press_sequentially("pay")
    expect(page.locator("#palette-list")).to_contain_text("payments")


def _count(page: Page) -> None:
    page.get_by_role("button", name="Count now").click()
    expect(page.locator("#verdict-title")).to_be_visible(timeout=_COUNT_SECONDS * 1000)


def _read(page: Page) -> None:
    page.get_by_role("button", name="Read records").click()
    expect(page.locator("#records-title")).to_be_visible()
    page.locator("#records-title").evaluate("title => title.scrollIntoView({block: 'center'})")


class Shot(NamedTuple):
    """prepare: what to do on the page before the picture."""

    name: str
    address: str
    width: int = WIDE
    theme: str = "light"
    prepare: Callable[[Page], None] = _stay


_PAYMENTS = "/ui/connectors/payments"
SHOTS = (
    Shot("overview-light", "/ui"),
    Shot("overview-narrow-dark", "/ui", NARROW, "dark"),
    Shot("connectors-light", "/ui/connectors"),
    Shot("connectors-dark", "/ui/connectors", theme="dark"),
    Shot("connectors-narrow-light", "/ui/connectors", NARROW),
    Shot("palette-dark", "/ui/connectors", theme="dark", prepare=_search),
    Shot("connector-light", "/ui/connectors/flights"),
    Shot("connector-narrow-dark", "/ui/connectors/flights", NARROW, "dark"),
    Shot("connector-failed-dark", "/ui/connectors/weather", theme="dark"),
    Shot("tasks-narrow-light", f"{_PAYMENTS}/tasks", NARROW),
    Shot("transactions-light", f"{_PAYMENTS}/transactions"),
    Shot("transactions-dark", f"{_PAYMENTS}/transactions", theme="dark"),
    Shot("offsets-light", "/ui/connectors/orders/offsets"),
    Shot("generations-light", f"{_PAYMENTS}/generations"),
    Shot("history-light", "/ui/connectors/orders/history"),
    Shot("history-narrow-dark", "/ui/connectors/orders/history", NARROW, "dark"),
    Shot("proof-light", f"{_PAYMENTS}/proof", prepare=_count),
    Shot("config-dark", f"{_PAYMENTS}/config?from=1", theme="dark"),
    Shot("topics-light", "/ui/topics"),
    Shot("topic-light", "/ui/topics/flights", prepare=_read),
    Shot("topic-narrow-dark", "/ui/topics/flights", NARROW, "dark", _read),
    Shot("catalog-light", "/ui/new"),
    Shot("catalog-narrow-dark", "/ui/new", NARROW, "dark"),
    Shot("new-dark", "/ui/new?class=FileStreamSource", theme="dark"),
    Shot("transforms-light", "/ui/new?class=VerifiableSource", prepare=_add_transforms),
    Shot("plugins-light", "/ui/plugins"),
    Shot("workers-light", "/ui/workers"),
    Shot("alerts-light", "/ui/incidents"),
    Shot("docs-light", "/ui/docs/exactly-once"),
    Shot("fence-light", "/ui/connectors/payments/fence"),
    Shot("accounts-light", "/ui/settings/people"),
    Shot("audit-dark", "/ui/settings/audit", theme="dark"),
)


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
    """Yield a platform with two workers and six connectors: one has failed, one is stopped, and one has a history.

    folder: of the files that are read; connectors show its path.
    """
    airport, weather = Airport(folder / "flights.csv"), folder / "weather.csv"
    data = tempfile.TemporaryDirectory()
    plugins = str(folder / "plugins")
    settings = {
        "CONNECT_FILE_ROOTS": str(folder),
        "CONNECT_PLUGIN_PATH": plugins,
        "CONNECT_PLUGIN_INSTALL_PATH": plugins,
    }
    up = Up(Path(data.name), workers=2, settings=settings)
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
    """Yield a folder whose name may be shown."""
    parent = Path("/srv") if os.access("/srv", os.W_OK) else Path.home()
    folder = parent / "airport"
    folder.mkdir()  # never an existing one
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _small(picture: bytes) -> bytes:
    """Return the same picture with a palette, as a PNG."""
    with Image.open(BytesIO(picture)) as image:
        out = BytesIO()
        reduce_colours(image).save(out, "PNG", optimize=True)
        return out.getvalue()


def reduce_colours(image: Image.Image) -> Image.Image:
    """Return the image with a palette: the commonest colours stay as they are, so surfaces, lines and icons have
    exactly theirs, and the shades at the edges of letters get the nearest of them, or of some that are spread evenly.
    """
    pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.int32)
    packed = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    colours, places, counts = numpy.unique(packed, return_inverse=True, return_counts=True)
    exact = colours[numpy.argsort(-counts, kind="stable")[:_EXACT]]
    spread = image.convert("RGB").quantize(_COLOURS - _EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = numpy.concatenate([_unpack(exact), numpy.asarray(spread, dtype=numpy.int32).reshape(-1, 3)])[:_COLOURS]
    distances = ((_unpack(colours)[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1).astype(numpy.uint8)
    reduced = Image.fromarray(nearest[places].reshape(packed.shape), "P")
    reduced.putpalette(palette.astype(numpy.uint8).tobytes())
    return reduced


def _unpack(colours: "numpy.typing.NDArray[numpy.int32]") -> "numpy.typing.NDArray[numpy.int32]":
    return numpy.stack([colours >> 16, (colours >> 8) & 255, colours & 255], axis=1)


def _shoot(browser: Browser, up: Up, shot: Shot) -> None:
    visitor = Visitor(browser, up.rest.url, width=shot.width, theme=shot.theme)
    eventually(lambda: _failed(up.rest), 180)  # between two automatic restarts
    try:
        page = visitor.go(shot.address)
        page.wait_for_load_state("load")
        if page.locator("[sse-connect]").count():
            visitor.await_live()
        shot.prepare(page)
        picture = _small(page.screenshot(animations="disabled"))
        assert len(picture) < LIMIT_BYTES, f"{shot.name}: {len(picture)} bytes"
        assert visitor.complaints == []
        (FOLDER / f"{shot.name}.png").write_bytes(picture)
        print(f"{shot.name}.png: {len(picture):,} bytes")
    finally:
        visitor.close()


class Frame(NamedTuple):
    """A picture of the film, and for how long it stays."""

    picture: bytes
    ms: int


def _film(browser: Browser, up: Up) -> None:
    """Film what the page of a connector says while one of its workers is killed, and what the count says afterwards."""
    visitor = Visitor(browser, up.rest.url, width=_FILM_SIZE[0])
    try:
        page = visitor.go(_PAYMENTS)
        page.set_viewport_size({"width": _FILM_SIZE[0], "height": _FILM_SIZE[1]})
        visitor.await_live()
        frames = [Frame(page.screenshot(animations="disabled"), 2500)]
        os.kill(up.pid(_worker_of(up.rest)), signal.SIGKILL)
        frames += _follow(page)
        visitor.go(f"{_PAYMENTS}/proof")
        _count(page)
        page.locator("#verdict-title").evaluate("title => title.scrollIntoView({block: 'center'})")
        frames.append(Frame(page.screenshot(animations="disabled"), 5000))
        content = join_frames(frames)
        assert len(content) < _FILM_LIMIT_BYTES, f"the film has {len(content)} bytes"
        (FOLDER / "demo.gif").write_bytes(content)
        print(f"demo.gif: {len(frames)} frames, {len(content):,} bytes")
    finally:
        visitor.close()


def _worker_of(rest: Rest) -> str:
    return str(rest.expect(200, "GET", "/api/v1/connectors/payments/tasks")["results"][0]["worker"])


def _follow(page: Page) -> Iterator[Frame]:
    """Yield a picture whenever the page says another state, and at least each second, until it is healthy again."""
    state, has_left = page.locator(".facts.four .chip").first, False
    deadline = Deadline.after(_FILM_SECONDS)
    before = ""
    while not deadline.expired:
        words = state.inner_text()
        has_left = has_left or "Healthy" not in words
        yield Frame(page.screenshot(animations="disabled"), 1200 if words != before else 350)
        if has_left and "Healthy" in words:
            return
        before = words
        page.wait_for_timeout(700)
    raise AssertionError(f"the connector is still {before}")


def join_frames(frames: Sequence[Frame]) -> bytes:
    """Return an animated GIF with one palette for all frames."""
    pictures = [Image.open(BytesIO(frame.picture)).convert("RGB") for frame in frames]
    width, height = pictures[0].size
    strip = Image.new("RGB", (width, height * len(pictures)))
    for number, picture in enumerate(pictures):
        strip.paste(picture, (0, height * number))
    reduced = reduce_colours(strip)
    first, *others = (
        reduced.crop((0, height * number, width, height * (number + 1))) for number in range(len(pictures))
    )
    out = BytesIO()
    times = [frame.ms for frame in frames]
    first.save(out, "GIF", save_all=True, append_images=others, duration=times, loop=0, optimize=False)
    return out.getvalue()


def main() -> None:
    """Take all pictures, or none if one fails."""
    path = program.find()
    if path is None:
        raise SystemExit(f"There is no Chromium on the PATH: {program.HOW_TO_INSTALL}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _sources() as folder, _world(folder) as up, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(program.ARGUMENTS))
        for shot in SHOTS:
            _shoot(browser, up, shot)
        _film(browser, up)
        browser.close()


if __name__ == "__main__":
    main()
