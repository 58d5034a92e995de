"""Attacks of strangers on a signed webhook: honest senders beside them lose nothing, and the task runs on.

Each attack is a neighbour of one that stopped such a webhook: bodies that grow when they are written, headers without
content, bodies that never end, and captured requests that are sent again.
"""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.security.hooks import (
    HonestSenders,
    Hook,
    make_hook,
    raw_post,
    sign,
    site,
    status_of,
    strangers,
)
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually

LOSS = 0.1
TRIES = 4
SLOW = 320
"""More bodies than a webhook has places."""
EMOJI = json.dumps({"text": "😀" * 130_000}, ensure_ascii=False).encode()
"""Below the limit of a body, and three times as long in the topic."""
EMPTY_HEADERS = b"a:\r\n" * 16_000


@pytest.fixture(scope="module")
def hook(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    made = make_hook(broker, **{"transforms": "cast", "transforms.cast.type": CAST, "transforms.cast.spec": "n:int8"})
    made.start()
    with site(tmp_path_factory.mktemp("site"), made):
        yield made
    made.close()


CAST = "org.apache.kafka.connect.transforms.Cast$Value"


def withstand(
    hook: Hook,
    *attacks: Callable[[threading.Event], None],
    under_way: Callable[[], bool],
    window_s: float = 2.0,
    one_address: bool = False,
) -> None:
    """Honest senders lose at most a tenth of their rate, and none of their requests. A busy machine gets more tries for
    the rate, but not for the requests. under_way: whether the attacks have their full strength. one_address: the honest
    senders share theirs with an attack, so a tenth of their connections may be closed: an address has a number of them.
    """
    honest = HonestSenders(hook)
    try:
        honest.rate(0.5)
        before = honest.rate(window_s)
        assert before > 0
        with strangers(*attacks):
            eventually(under_way, 60, "the attacks")
            rates: list[float] = []
            while not rates or (max(rates) < before * (1 - LOSS) and len(rates) < TRIES):
                rates.append(honest.rate(window_s))
    finally:
        answers = honest.end()
    print(f"{before:.1f} honest requests/s before, then {rates}; {answers}")
    if one_address:
        assert answers.pop(0, 0) <= answers[200] * LOSS
    assert set(answers) == {200}, answers
    assert max(rates) >= before * (1 - LOSS), (before, rates)
    hook.require_unharmed()


@pytest.mark.alone
@pytest.mark.thorough
def test_bodies_that_grow_are_refused_and_harm_nobody(hook: Hook) -> None:
    statuses: Counter[int] = Counter()

    def attack(over: threading.Event) -> None:
        while not over.wait(0.3):
            statuses[hook.post(EMOJI, unique("emoji")).status_code] += 1

    withstand(hook, attack, under_way=lambda: statuses.total() > 0)
    assert set(statuses) == {413}


@pytest.mark.alone
@pytest.mark.thorough
def test_thousands_of_empty_headers_are_refused_and_harm_nobody(hook: Hook) -> None:
    statuses: Counter[int] = Counter()

    def attack(over: threading.Event) -> None:
        while not over.wait(0.05):
            with raw_post(hook, EMPTY_HEADERS + b"Content-Length: 2\r\n", b"{}") as connection:
                statuses[status_of(connection)] += 1

    withstand(hook, attack, attack, under_way=lambda: statuses.total() > 2)
    assert set(statuses) <= {431, 0}
    assert statuses[431]


@pytest.mark.alone
@pytest.mark.thorough
def test_bodies_that_never_end_take_nobodys_place(hook: Hook) -> None:
    """From one address, and from the one that honest senders have."""
    opened: list[socket.socket] = []

    def attack_from(address: str) -> Callable[[threading.Event], None]:
        def attack(over: threading.Event) -> None:
            mine = [raw_post(hook, b"Content-Length: 1000\r\n", b"{", address) for _ in range(SLOW)]
            opened.extend(mine)
            while not over.wait(0.2):
                for number, connection in enumerate(mine):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        connection.close()
                        mine[number] = raw_post(hook, b"Content-Length: 1000\r\n", b"{", address)
                        opened.append(mine[number])

        return attack

    try:
        attacks = attack_from("127.0.0.2"), attack_from("127.0.0.1")
        withstand(hook, *attacks, under_way=lambda: len(opened) >= 2 * SLOW, one_address=True)
    finally:
        for connection in opened:
            connection.close()


def test_a_captured_request_is_no_second_record_under_another_key(hook: Hook) -> None:
    order = unique("order")
    body = json.dumps({"paid": order}).encode()
    assert hook.post(body, "the sender's").json() == {"status": "accepted"}
    assert hook.post(body, "the sender's").json() == {"status": "duplicate"}
    for key in ("a stranger's", "another"):
        answer = hook.post(body, key)
        assert answer.status_code == 409
    assert sum(order.encode() in (value or b"") for value in hook.values()) == 1
    hook.require_unharmed()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"n": "no number"}', 422),  # the transform raises
        (b'{"n": 9e300}', (200, 422)),
        (b'{"n": {"deep": []}}', 422),
        (b"[1]", 422),
        (b"null", 200),  # a tombstone
        (b'"text"', 422),
        (b'{"a": [' + b"9e6," * 130_000 + b"1]}", 413),
        (b'{"a": [' + b"1e-7," * 100_000 + b"1]}", (200, 413)),
        (b'{"a": ' + b"7" * 100_000 + b"}", (200, 400, 422)),
        (b'{"a": 1e400}', (200, 400, 422)),
        (b'{"a": 1e' + b"9" * 1000 + b"}", (200, 400, 422)),
        (b'{"a": -0.' + b"1" * 100_000 + b"}", (200, 400)),
        (b'{"a": "\\ud800"}', 400),
        (b'{"\\udfff": 1}', 400),
        (b'{"a": "\xed\xa0\x80"}', 400),
        (b'{"a": "' + b"\\u0000" * 60_000 + b'"}', 200),
        (b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", 200),
        (b"[" * 5000 + b"]" * 5000, 400),
        (b'{"a": 1, "a": 2}', 200),
        (b'{"": {"": {"": null}}}', 200),
        (b'{"a": [' + b"[]," * 150_000 + b"[]]}", 200),
        (b"", 400),
    ],
)
def test_no_body_fails_the_task(hook: Hook, body: bytes, status: int | tuple[int, ...]) -> None:
    answer = hook.post(body, unique("any"))
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    hook.require_unharmed()


@pytest.mark.parametrize("key", ["k" * 255, "\xff" * 200, "a\tb", "${file:/etc/passwd:x}", '"\\', "%00"])
def test_no_key_and_no_header_fails_the_task(hook: Hook, key: str) -> None:
    body = json.dumps({"k": unique("body")}).encode()
    headers = [(b"Idempotency-Key", key.encode("latin-1")), (b"X-Signature", sign(body).encode())]
    headers += [(b"Idempotency-Key", b"second"), (b"X-Odd", bytes(range(0x80, 0x100)))]
    assert hook.client.post(hook.url, content=body, headers=headers, timeout=60).status_code == 200
    hook.require_unharmed()


@pytest.fixture
def narrow(broker: Broker, tmp_path: Path) -> Iterator[Hook]:
    """Its topic takes much less than the producer has in one batch."""
    topic = unique("narrow")
    made = make_hook(broker, topic=topic)
    config = {"max.message.bytes": "20000"}
    create_topics(made.stage.connection, [TopicSpec(topic, config=config)], Deadline.after(60))
    made.start()
    with site(tmp_path, made):
        yield made
    made.close()


def test_neither_one_request_nor_many_at_once_are_more_than_the_topic_takes(narrow: Hook) -> None:
    def post(number: int) -> int:
        return narrow.post(json.dumps(f"{number} " + "x" * 2000).encode(), str(number)).status_code

    assert narrow.post(json.dumps("x" * 21_000).encode(), "large").status_code == 413
    with ThreadPoolExecutor(40) as pool:
        assert Counter(pool.map(post, range(200))) == {200: 200}
    assert len(narrow.values()) == 200
    narrow.require_unharmed()


@pytest.mark.thorough
def test_captured_requests_stay_known_over_a_kill(broker: Broker, tmp_path: Path) -> None:
    hook = make_hook(broker)
    try:
        hook.start()
        body = b'{"paid": 1}'
        with site(tmp_path, hook):
            assert hook.post(body, "first").status_code == 200
        hook.attempts[-1].kill()
        hook.start()
        with site(tmp_path, hook):
            assert hook.post(body, "first").json() == {"status": "duplicate"}
            assert hook.post(body, "second").status_code == 409
            assert hook.post(b'{"paid": 2}', "second").status_code == 200
        assert hook.values() == [b'{"paid":1}', b'{"paid":2}']
        hook.require_unharmed()
    finally:
        hook.close()
