"""What one tenant asks for does not keep another one from the platform: tasks, connectors, names."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.up import Up
from tests.security.end_to_end.site import BOSS, Site, running_site
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(500)

_MANY = 6_000
_PAUSE_S = 0.5
"""What a pause may take at most on a machine without other work. Else a multiple of what it takes without a load,
measured just before."""


class OneSlot(Up):
    """So that the other tenant's task runs, and thousands of tasks start nothing."""

    def command(self) -> list[str]:
        return [*super().command(), "--slots", "1"]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    up = OneSlot(
        tmp_path_factory.mktemp("crowded"), settings={"RINGFENCE_TOKEN": BOSS, "CONNECT_TASKS_MAX_LIMIT": str(_MANY)}
    )
    with running_site(up, "--connectors", "3", "--tasks", str(10 * _MANY)) as made:
        yield made


def numbers(tasks: str = "1") -> dict[str, str]:
    return {"connector.class": "VerifiableSource", "tasks.max": tasks, "topic": "numbers", "throughput": "1"}


def test_too_many_tasks_are_refused_at_once(crowded: Site) -> None:
    for tasks in ("20000", "2147483647"):
        began = time.monotonic()
        name = unique("team-a")
        answer = crowded.editor.started("POST", "/connectors", {"name": name, "config": numbers(tasks)})
        assert answer.status_code == 400, answer.text
        assert "tasks.max.limit" in answer.text
        assert time.monotonic() - began < 60
        validation = crowded.editor.call(
            "PUT", "/connector-plugins/VerifiableSource/config/validate", {**numbers(tasks), "name": name}
        )
        assert "tasks.max.limit" in validation.text


@pytest.mark.parametrize("length", [250, 20_000, 40_000])
def test_a_long_name_is_refused(crowded: Site, length: int) -> None:
    body = {"name": "team-a-" + "n" * (length - 7), "config": numbers()}
    answer = crowded.editor.call("POST", "/connectors", body)
    assert answer.status_code == 400, answer.text[:500]
    assert "249 at most" in answer.text
    assert len(answer.text) < 2_000


def test_attempts_from_many_sides_end_at_the_quota(crowded: Site) -> None:
    def attempt(number: int) -> int:
        return crowded.editor.call(
            "POST", "/connectors", {"name": f"team-a-q{number}", "config": numbers(), "initial_state": "STOPPED"}
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = Counter(pool.map(attempt, range(24)))
    assert codes[201] == 3, codes
    assert codes[403] > 0, codes
    assert set(codes) <= {201, 403, 429}, codes
    assert (
        "its quota is 3" in crowded.editor.call("POST", "/connectors", {"name": "team-a-q99", "config": numbers()}).text
    )
    for name in crowded.editor.expect(200, "GET", "/connectors"):
        if name.startswith("team-a-q"):
            crowded.editor.settled(204, "DELETE", f"/connectors/{name}", timeout=90)


class Pauses:
    """Another tenant who pauses and resumes a connector all the time; how long each took."""

    def __init__(self, site: Site) -> None:
        self._site, self._over = site, threading.Event()
        self.taken: list[tuple[float, str]] = []
        """In seconds, each with the stages that the answer names, in milliseconds."""

    def act(self) -> None:
        number = 0
        while not self._over.is_set():
            began = time.monotonic()
            answer = self._site.boss.call("PUT", f"/connectors/victim/{('pause', 'resume')[number % 2]}")
            self.taken.append((time.monotonic() - began, answer.headers.get("Server-Timing", "")))
            assert answer.status_code == 202, answer.text
            number += 1
            self._over.wait(0.2)

    def median_of(self, seconds: float) -> float:
        """Act undisturbed for so long."""
        with self.going_on():
            time.sleep(seconds)
        return self.median_and_longest()[0]

    def median_and_longest(self) -> tuple[float, float]:
        taken, self.taken = sorted(self.taken), []
        print(f"{len(taken)} pauses: median {taken[len(taken) // 2][0]:.2f} s; the longest:")
        for seconds, stages in taken[-8:]:
            print(f"  {seconds:.2f} s: {stages}")
        return taken[len(taken) // 2][0], taken[-1][0]

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        self._over.clear()
        with ThreadPoolExecutor(1) as pool:
            acting = pool.submit(self.act)
            try:
                yield
            finally:
                self._over.set()
            acting.result(120)


@pytest.fixture
def pauses(crowded: Site) -> Iterator[Pauses]:
    crowded.boss.create("victim", numbers())
    crowded.running("victim")
    yield Pauses(crowded)
    crowded.boss.settled(204, "DELETE", "/connectors/victim", timeout=120)


def of_thousands_of_tasks(site: Site) -> None:
    name = unique("team-a")
    site.editor.create(name, numbers(str(_MANY)))
    path = f"/api/v1/connectors/{name}"
    eventually(lambda: site.editor.expect(200, "GET", path)["tasks"] == _MANY, 240, "its tasks", pause=1)
    site.editor.settled(204, "DELETE", f"/connectors/{name}", timeout=120)


def of_a_thousand_connectors(site: Site) -> None:
    """As fast as the account may."""
    rights = ["--allow", "editor", "--pattern", "team-b-*", "--connectors", "1000", "--tasks", "1000"]
    site.run("users", "create", "many", "--no-password", *rights)
    token = site.run("tokens", "create", "many", "work", "--allow", "admin").strip()
    until = time.monotonic() + 240

    def create(number: int) -> int:
        made = 0
        for each in range(number, 1000, 4):
            if time.monotonic() > until:
                break
            body = {"name": f"team-b-{each}", "config": numbers()}
            answer = httpx.post(
                f"{site.boss.url}/connectors", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=90
            )
            made += answer.status_code == 201
        return made

    with ThreadPoolExecutor(4) as pool:
        print(f"{sum(pool.map(create, range(4)))} connectors were created")


@pytest.mark.slow
@pytest.mark.parametrize("load", [of_thousands_of_tasks, of_a_thousand_connectors])
def test_another_tenant_pauses_under_the_load_of_one(
    crowded: Site, pauses: Pauses, load: Callable[[Site], None]
) -> None:
    idle = pauses.median_of(10)
    with pauses.going_on():
        load(crowded)
    median, longest = pauses.median_and_longest()
    assert median < max(_PAUSE_S / 2, 6 * idle)
    assert longest < max(_PAUSE_S, 12 * idle)
