"""What others wrote, and the schemas of their registries, break a reader process at worst, and nobody else."""

import base64
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from ringfence.engine import fair_places
from ringfence.engine.browsing.reader_calls import OpenReading, Reading
from ringfence.engine.browsing.readers import Readers, slices
from ringfence.engine.plugins.errors import BadRequest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_records import MetRecord, TailRecord, Visibility
from ringfence.requests.request import Refusal
from tests.support import hostile_registry as bombs
from tests.support.hostile_registry import hostile_registry
from tests.support.waiting import eventually

MIB = 1024 * 1024
READ_SECONDS = 10.0
"""What a worker has for a page. On a busy machine, a reader that must start first may take longer: see `PATIENCE`."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with hostile_registry() as url:
        yield url


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    running = Readers(memory=512 * MIB)
    running.warm()
    yield running
    running.close()


def tail(value: bytes, offset: int = 0) -> TailRecord:
    return TailRecord(0, offset, 0, Visibility.COMMITTED, b"k", 1, value, len(value), [("h", b"x", 1)])


def met(value: bytes, offset: int = 0) -> MetRecord:
    return MetRecord(0, offset, 0, b"k", value, [("h", b"x")])


def reading(registry: str = "", *, where: str = "", contains: str = "") -> OpenReading:
    settings = {"schema.registry.url": registry} if registry else {}
    return OpenReading({}, settings, bool(registry), ("hunter22",), None, contains, where)


def texts(shown: list[dict[str, object]]) -> list[str]:
    return [str(each["value"]["text"]) for each in shown]  # type: ignore[index]


def are_idle() -> bool:
    return all(process.cpu_percent(0.2) < 50 for process in reader_processes())


def reader_processes() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "ringfence.engine.browsing.reader_main" in one.cmdline()]


def refusal_of(readers: Readers, reading: OpenReading, records: list[MetRecord], limit: Deadline) -> Refusal | None:
    """Why a filter was not applied; None if it was: no record matches it."""
    try:
        with readers.open(reading, limit) as reader:
            assert not any(reader.select(records))
    except Refusal as refused:
        return refused
    return None


def assert_others_are_served(readers: Readers) -> None:
    """The next page of somebody else is right, and takes no longer than a process takes to start."""
    assert texts(readers.show([tail(b'{"n": 1}')], reading(), Deadline.after(PATIENCE))) == ['{\n  "n": 1\n}']


def test_a_warm_reader_decodes_a_page_in_no_time(readers: Readers, registry: str) -> None:
    page = [*(tail(b'{"n": 1, "pin": "hunter22"}') for _ in range(199)), tail(bombs.value(bombs.SOUND))]
    readers.show(page, reading(registry), Deadline.after(PATIENCE))
    began = time.monotonic()
    shown = readers.show(page, reading(registry), Deadline.after(PATIENCE))
    assert time.monotonic() - began < 1.0
    assert texts(shown)[198:] == ['{\n  "n": 1,\n  "pin": "[hidden]"\n}', '{\n  "s": "safe"\n}']
    assert shown[199]["value"]["schema"] == f"S (id {bombs.SOUND})"  # type: ignore[index]


@pytest.mark.parametrize(
    ("bomb", "seconds"),
    [(bombs.RECURSIVE, PATIENCE), (bombs.NULLS, PATIENCE), (bombs.UNPACKED, PATIENCE), (bombs.DRIP, READ_SECONDS)],
    ids=["recursive", "nulls", "unpacked", "drip"],
)
def test_a_page_with_a_bomb_is_shown_and_others_go_on(
    readers: Readers, registry: str, bomb: int, seconds: float
) -> None:
    page = [tail(b'{"n": 1}', 0), tail(bombs.value(bomb), 1)]
    began = time.monotonic()
    with ThreadPoolExecutor(1) as other:
        attack = other.submit(readers.show, page, reading(registry), Deadline.after(seconds))
        assert_others_are_served(readers)
        shown = attack.result()
    assert time.monotonic() - began < seconds + 5
    assert texts(shown)[0] == '{\n  "n": 1\n}', "a bad record hides no good one"
    assert shown[1]["value"]["kind"] == "hex"  # type: ignore[index]
    assert shown[1]["value"]["problem"]  # type: ignore[index]
    for process in reader_processes():
        assert process.memory_info().rss < 900 * MIB
    assert_others_are_served(readers)


def test_a_record_that_is_nested_too_deeply_hides_no_page(readers: Readers) -> None:
    deep = b"[" * 900 + b'"hunter22"' + b"]" * 900
    page = [tail(b'{"n": 1}'), tail(b"[" * 480 + b"]" * 480), tail(deep), tail(b'{"a":' * 900 + b"1" + b"}" * 900)]
    shown = texts(readers.show(page, reading(), Deadline.after(PATIENCE)))
    assert shown[0] == '{\n  "n": 1\n}'
    assert all(shown)
    assert "hunter22" not in str(shown)
    with readers.open(reading(contains="hunter"), Deadline.after(PATIENCE)) as reader:
        assert reader.select([met(deep), met(b'"hunter"')]) == [False, True]


@pytest.mark.parametrize("bomb", [bombs.RECURSIVE, bombs.NULLS, bombs.DRIP], ids=["recursive", "nulls", "drip"])
def test_a_filter_over_a_bomb_ends_with_an_answer(readers: Readers, registry: str, bomb: int) -> None:
    limit = Deadline.after(READ_SECONDS)
    search = reading(registry, contains="nothing")
    refused = refusal_of(readers, search, [met(b'"sound"'), met(bombs.value(bomb))], limit)
    assert refused is None or (refused.status in (500, 503) and "decode" in refused.message)
    assert limit.remaining > -5
    assert_others_are_served(readers)


def test_a_filter_that_takes_minutes_is_ended_at_its_deadline(readers: Readers) -> None:
    """Four of one account, each 250 kB against a pattern that goes back and forth."""
    hard = reading(where='value like "*' + "a" * 500 + '*b"')
    text = met(b'"' + b"a" * 250_000 + b'"')

    def attack() -> None:
        fair_places.account.set("editor-a")
        refused = refusal_of(readers, hard, [text], Deadline.after(4))
        assert refused is None or refused.status == 503

    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        attacks = [pool.submit(attack) for _ in range(4)]
        assert_others_are_served(readers)
        for each in attacks:
            each.result()
    assert time.monotonic() - began < 30
    eventually(are_idle, 30, "none of them works any more")  # one that replaces another works while it starts


def test_a_reader_knows_nothing_of_the_platform(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "unrelated, but a secret")
    monkeypatch.setenv("RINGFENCE_SECRET_KEY", "of the platform")
    fresh = Readers(memory=512 * MIB, processes=1)
    try:
        before = {one.pid for one in reader_processes()}
        with fresh.open(reading(), Deadline.after(PATIENCE)):
            (own,) = [one for one in reader_processes() if one.pid not in before]
            seen = own.environ()
            assert not {"AWS_SECRET_ACCESS_KEY", "RINGFENCE_SECRET_KEY", "RINGFENCE_ENCRYPTION_KEYS"} & seen.keys()
            assert {name for name in seen if name.startswith(("RINGFENCE", "CONNECT"))} == {
                "RINGFENCE_CONNECTOR_LIMITS"
            }
            assert "hunter22" not in " ".join(own.cmdline())
    finally:
        fresh.close()


def test_what_a_user_names_is_refused_as_such(readers: Readers) -> None:
    for wrong, words in ((reading(where="value =="), "where: "), (reading("ftp://h"), "registry: ")):
        with pytest.raises(Refusal, match=words) as refused, readers.open(wrong, Deadline.after(PATIENCE)):
            pass
        assert refused.value.status == 400
    assert_others_are_served(readers)
    assert os.getpid() == psutil.Process().pid


def test_records_are_sent_in_slices() -> None:
    records = [{"n": size} for size in (3, 3, 9, 1, 1)]
    assert [[one["n"] for one in part] for part in slices(records, 6, lambda one: int(one["n"]))] == [
        [3, 3],
        [9],
        [1, 1],
    ]
    assert list(slices([], 6, lambda one: 1)) == []


def test_a_filter_that_takes_too_many_steps_is_the_users_error() -> None:
    call = reading(where=" or ".join(['value like "*a?a?b"'] * 35))
    record: dict[str, object] = {
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 0,
        "key": None,
        "value": base64.b64encode(b"a" * 250_000).decode(),
        "headers": [],
    }
    with pytest.raises(BadRequest, match="where: it takes too many steps on one of the records"):
        Reading(call).matches(record)
