"""One account's slow questions hold up nobody's pause, fence or health."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

import httpx
import pytest

from tests.e2e.flow import Flow
from tests.e2e.up import Up

SLOW = 64
LATE, LATEST = 4.0, 5.5
"""Seconds; whoever waits behind slow questions waits for six. On a quiet machine all take less than half of one, on a
busy one they are slower alone, too.
"""

SOON = 0.5
"""Of what waits for no round. A busy machine is slower alone, too."""


class BlackHole:
    """A port that takes connections and never says a word."""

    def __enter__(self) -> str:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(1024)
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def urgent(up: Up, name: str) -> dict[str, float]:
    """Seconds that each of the things took which cannot wait."""
    path = f"/connectors/{name}"
    calls = [
        ("pause", "PUT", f"{path}/pause", 202),
        ("resume", "PUT", f"{path}/resume", 202),
        ("fence", "POST", f"/api/v1{path}/fence", 200),
        ("fence accepted", "POST", f"/api/v1{path}/fence", 202),
        ("health", "GET", "/health", 200),
    ]
    took = {}
    for word, method, where, status in calls:
        body = {"fence": {"reason": "a test"}, "fence accepted": {"reason": "a test", "wait": False}}.get(word)
        began = time.monotonic()
        answer = up.rest.call(method, where, body)
        took[word] = time.monotonic() - began
        assert answer.status_code == status, (word, answer.status_code, answer.text)
    return took


@pytest.mark.thorough
def test_pause_fence_and_health_do_not_wait_for_other_peoples_questions(
    platform: Up, flow: Callable[..., Flow], stopwatch: Callable[[str, float], None]
) -> None:
    one = flow()
    one.await_progress()
    alone = urgent(platform, one.name)
    answers: list[httpx.Response] = []
    with BlackHole() as nowhere:
        config = {"connector.class": "VerifiableSource", "name": "slow", "topic": "slow"}
        config["producer.override.bootstrap.servers"] = nowhere

        def ask() -> None:
            answers.append(httpx.put(f"{platform.rest.url}/api/v1/preflight", json=config, timeout=100))

        began = time.monotonic()
        asking = [threading.Thread(target=ask) for _ in range(SLOW)]
        for each in asking:
            each.start()
        time.sleep(1.5)  # all of them have been sent; those under way take six seconds
        rounds: list[dict[str, float]] = []
        while any(each.is_alive() for each in asking) and len(rounds) < 3:
            rounds.append(urgent(platform, one.name))
        for each in asking:
            each.join()
        slow_seconds = time.monotonic() - began
    again = urgent(platform, one.name)
    alone = {word: max(took, again[word]) for word, took in alone.items()}
    statuses = Counter(answer.status_code for answer in answers)
    beside = {word: min(took[word] for took in rounds) for word in alone}
    for word in alone:
        stopwatch(f"{word} alone", alone[word])
        stopwatch(f"{word} beside {SLOW} slow questions", beside[word])
    assert statuses[200], statuses
    assert statuses[429], statuses
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"]
    assert "are in progress" in refused.text
    assert slow_seconds > 5, "the questions were not slow: this has shown nothing"
    for word in alone:
        assert beside[word] < min(LATEST, max(LATE, 3 * alone[word])), (alone, rounds)
    assert beside["fence accepted"] < max(SOON, 3 * alone["fence accepted"]), (alone, rounds)
