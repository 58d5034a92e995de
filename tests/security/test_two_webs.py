"""Two web processes behind HAProxy, on one database: what one knows the other one knows, and one may be killed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.security.servers import Web, clean_environment, migrate, serving
from tests.support.reverse_proxies import HOST, Site, running_proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough
SETTINGS = {
    "RINGFENCE_BEHIND_PROXY": "1",
    "RINGFENCE_SECURE_COOKIES": "1",
    "RINGFENCE_ALLOWED_HOSTS": f"{HOST},localhost",
}
PASSWORD = "a password that is long enough"
READERS = 4


@dataclass(frozen=True, slots=True)
class Pair:
    webs: tuple[Web, Web]
    proxy: Site


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    migrate(tmp_path)
    create = [sys.executable, "-m", "ringfence.cli", "users", "create", "ann", "--password-stdin", "--allow", "admin"]
    subprocess.run(create, input=PASSWORD.encode(), env=clean_environment(tmp_path), check=True, timeout=120)
    command = ["ringfence.cli", "web", "--http", "ADDRESS"]
    with (
        serving(tmp_path, command, SETTINGS) as one,
        serving(tmp_path, command, SETTINGS) as other,
        running_proxy("haproxy", tmp_path, [one.port, other.port]) as proxy,
    ):
        yield Pair((one, other), proxy)


def direct(web: Web, client: httpx.Client) -> httpx.Client:
    """A client of this web process, in whose eyes it is the same browser."""
    headers = {"host": HOST, "x-forwarded-proto": "https", "x-forwarded-for": "10.1.1.1"}
    cookie = "; ".join(f"{each.name}={each.value}" for each in client.cookies.jar)
    return httpx.Client(base_url=f"http://{web.address}", headers={**headers, "cookie": cookie}, timeout=30)


def form_token(page: httpx.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found is not None, page.text
    return found[1]


def log_in(client: httpx.Client, name: str = "ann", password: str = PASSWORD) -> httpx.Response:
    words = {"name": name, "secret": password, "csrfmiddlewaretoken": form_token(client.get("/ui/login"))}
    return client.post("/ui/login", data=words, headers={"referer": f"https://{HOST}/ui/login"})


def check_sessions(pair: Pair) -> None:
    """A session, and its end, are known to both."""
    with pair.proxy.client() as client:
        assert log_in(client).status_code == 302
        with direct(pair.webs[0], client) as one, direct(pair.webs[1], client) as other:
            for each in (one, other, one):
                assert each.get("/connectors").status_code == 200
            (session,) = one.get("/api/v1/sessions").json()["results"]
            assert session == other.get("/api/v1/sessions").json()["results"][0]
            headers = {"referer": f"https://{HOST}/ui/", "x-csrftoken": client.cookies["ringfence_csrf"]}
            assert one.post("/ui/logout", headers=headers).status_code == 302
            for each in (one, other):
                assert each.get("/connectors").status_code == 401


def check_wrong_passwords(pair: Pair) -> None:
    """The proxy sends who logs in to either of them; both count."""
    with pair.proxy.client() as client:
        statuses = [log_in(client, "eve", f"wrong {number}").status_code for number in range(8)]
    assert 429 in statuses, statuses


def check_requests_and_streams(pair: Pair) -> None:
    """One is killed under load: no read fails, and who loses an event stream gets another one."""
    statuses: Counter[object] = Counter()
    over = threading.Event()

    def read(cookies: httpx.Cookies) -> None:
        with pair.proxy.client() as client:
            client.cookies = cookies
            while not over.is_set():
                try:
                    statuses[client.get("/connectors").status_code] += 1
                except httpx.TransportError as error:
                    statuses[type(error).__name__] += 1

    with pair.proxy.client() as client:
        assert log_in(client).status_code == 302
        readers = [threading.Thread(target=read, args=(client.cookies,), daemon=True) for _ in range(READERS)]
        with Events(client) as first, Events(client) as second:
            eventually(lambda: first.count and second.count, 20, "both streams have begun")
            for each in readers:
                each.start()
            eventually(lambda: statuses[200] > 20, 30, lambda: statuses)
            os.kill(pair.webs[0].pid, signal.SIGKILL)
            eventually(lambda: first.ended or second.ended, 20, "the stream of the killed process ends")
            assert not (first.ended and second.ended), "they were spread over both"
            after = statuses[200]
            eventually(lambda: statuses[200] > after + 100, 60, lambda: statuses)
            with Events(client) as again:
                eventually(lambda: again.count, 20, "a browser opens its stream again, and gets another one")
            (left,) = [each for each in (first, second) if not each.ended]
            before = left.count
            eventually(lambda: left.count > before, 20, "the other stream goes on")
    over.set()
    for each in readers:
        each.join(30)
    assert set(statuses) == {200}, statuses


def test_both_know_the_same_and_all_goes_on_when_one_is_killed(pair: Pair) -> None:
    check_sessions(pair)
    check_wrong_passwords(pair)
    check_requests_and_streams(pair)


class Events:
    """A page's event stream, read by a thread. count: events so far; ended: by the server."""

    def __init__(self, client: httpx.Client) -> None:
        self.count = 0
        self.ended = False
        self._answer = client.stream("GET", "/ui/events")
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Events":
        self._stack = contextlib.ExitStack()
        self._response = self._stack.enter_context(self._answer)
        assert self._response.status_code == 200
        self._thread.start()
        return self

    def _read(self) -> None:
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError, OSError, RuntimeError):  # also when we close it
            for part in self._response.iter_text():
                self.count += part.count("event: ")
        self.ended = True

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def test_without_a_shared_key_the_log_says_so(tmp_path: Path) -> None:
    migrate(tmp_path)
    command = ["ringfence.cli", "web", "--http", "ADDRESS"]
    with serving(tmp_path, command, {"RINGFENCE_SECRET_KEY": ""}) as web:
        log = (tmp_path / f"web-{web.port}.log").read_text()
    assert "RINGFENCE_SECRET_KEY is not set" in log
