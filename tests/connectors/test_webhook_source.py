"""WebhookSource without Kafka: signatures, keys and their window, who is answered when, and the line to the task."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ringfence.connectors.api import (
    ConnectorError,
    Endpoint,
    ExactlyOnceSupport,
    OffsetRecord,
    RecordBatch,
    RecordRefused,
    SourceRecord,
)
from ringfence.connectors.builtin.webhook import settings as names
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector
from ringfence.connectors.builtin.webhook.request_parsing import Receiver, RequestRejected, signature_check
from ringfence.connectors.builtin.webhook.request_queue import (
    ACCEPTED,
    DUPLICATE,
    FULL,
    HEAD,
    NO_ROOM,
    PAGE_KEYS,
    REPLAY_WAITS,
    REPLAYED,
    STOPPED,
    TOO_LARGE,
    Answer,
    KeyWindow,
    RequestQueue,
    Ticket,
    digest_of,
    digest_of_body,
)
from ringfence.connectors.builtin.webhook.settings import CONFIG_DEF
from ringfence.connectors.builtin.webhook.task import WebhookSourceTask
from ringfence.connectors.converters import header_converter
from ringfence.web.hooks.link import Link, Unreachable
from tests.connectors.fakes import FakeContext, FakeOffsets

NOW = 1_700_000_000_000
SECRET = "s3cret"
CONFIG = {"topic": "events", "signature": "none", "idempotency.key": "header:Idempotency-Key"}


def sign(message: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def polled(task: WebhookSourceTask) -> list[SourceRecord]:
    found = task.poll()
    assert not isinstance(found, RecordBatch)
    return [*(found or ())]


# --- signatures


def test_github_signature_as_their_documentation_shows_it() -> None:
    check = signature_check("github", ["It's a Secret to Everybody"], "", 0)
    good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert check({"x-hub-signature-256": good}, b"Hello, World!", NOW) == ""
    assert check({"x-hub-signature-256": good}, b"Hello, World?", NOW)
    assert check({"x-hub-signature-256": good.removeprefix("sha256=")}, b"Hello, World!", NOW)
    assert check({}, b"Hello, World!", NOW)


@pytest.mark.parametrize(
    ("header", "believed"),
    [
        (f"t=1700000000,v1={sign(b'1700000000.body')}", True),
        (f"t=1700000000,v1={'0' * 64},v1={sign(b'1700000000.body')},v0=x", True),
        (f"t=1700000299,v1={sign(b'1700000299.body')}", True),
        (f"t=1699999699,v1={sign(b'1699999699.body')}", False),  # replayed later than the tolerance
        (f"t=1700000301,v1={sign(b'1700000301.body')}", False),
        (f"t=1700000001,v1={sign(b'1700000000.body')}", False),
        (f"t=1700000000,t=1700000000,v1={sign(b'1700000000.body')}", False),
        (f"t=1700000000,v1={sign(b'1700000000.body', 'other')}", False),
        (f"v1={sign(b'1700000000.body')}", False),
        ("t=1700000000", False),
        ("", False),
    ],
)
def test_stripe_signature(header: str, believed: bool) -> None:
    check = signature_check("stripe", [SECRET], "", 300_000)
    assert (check({"stripe-signature": header}, b"body", NOW) == "") is believed


STANDARD_KEY = b"a key of twenty-four byt"
STANDARD_SECRET = f"whsec_{base64.b64encode(STANDARD_KEY).decode()}"


def standard(message_id: str, seconds: int, body: bytes, key: bytes = STANDARD_KEY) -> dict[str, str]:
    signed = f"{message_id}.{seconds}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1a,other v1,{signature}",
    }


def test_standard_webhooks_as_their_specification_shows_it() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    check = signature_check("standard-webhooks", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "", 300_000)
    body = b'{"test": 2432232314}'
    assert check(headers, body, 1_614_265_330_000) == ""
    assert check(headers, body, 1_614_265_330_000 + 301_000), "too late"
    assert check({**headers, "webhook-id": "msg_other"}, body, 1_614_265_330_000), "another key"
    assert check({**headers, "webhook-timestamp": "1614265331"}, body, 1_614_265_330_000), "another time"


def test_standard_webhooks_signatures() -> None:
    check = signature_check("standard-webhooks", [STANDARD_SECRET], "", 300_000)
    now = NOW // 1000
    assert check(standard("m", now, b"body"), b"body", NOW) == ""
    assert check(standard("m", now, b"body", b"other"), b"body", NOW)
    assert check(standard("m", now, b"body"), b"bodY", NOW)
    # Signed as id "m", time 5 and a body that begins with a time: it is no message with the id "m.5".
    moved = {**standard("m", 5, f"{now}.body".encode()), "webhook-id": "m.5", "webhook-timestamp": str(now)}
    assert check(moved, b"body", NOW)
    assert check({}, b"body", NOW)


def test_plain_hmac_may_be_base64_as_shopifys() -> None:
    check = signature_check("hmac", [SECRET], "X-Shopify-Hmac-Sha256", 0)
    signature = base64.b64encode(bytes.fromhex(sign(b"b"))).decode()
    assert check({"x-shopify-hmac-sha256": signature}, b"b", NOW) == ""
    assert check({"x-shopify-hmac-sha256": signature.lower()}, b"b", NOW)


def test_own_header_bearer_and_two_secrets() -> None:
    check = signature_check("hmac", ["new", "old"], "X-Own", 0)
    assert [check({"x-own": sign(b"b", secret)}, b"b", NOW) == "" for secret in ("new", "old", "none")] == [
        True, True, False,
    ]  # fmt: skip
    bearer = signature_check("bearer", [SECRET], "", 0)
    assert bearer({"authorization": f"Bearer {SECRET}"}, b"", NOW) == ""
    assert bearer({"authorization": f"Basic {SECRET}"}, b"", NOW)
    assert bearer({"authorization": "Bearer "}, b"", NOW)
    assert signature_check("bearer", [], "", 0)({"authorization": "Bearer "}, b"", NOW), "no secret opens nothing"


def test_no_refusal_tells_a_secret() -> None:
    for kind in ("github", "stripe", "hmac", "bearer"):
        headers = {
            "x-hub-signature-256": f"sha256={SECRET}",
            "stripe-signature": f"t=1,v1={SECRET}",
            "x": SECRET,
            "authorization": SECRET,
        }
        said = signature_check(kind, [SECRET], "X", 1000)(headers, b"", NOW)
        assert said
        assert SECRET not in said


# --- requests


def receiver(**more: str) -> Receiver:
    return Receiver(CONFIG_DEF.parse({**CONFIG, **more}))


@pytest.mark.parametrize(
    ("config", "headers", "body", "key"),
    [
        ({}, [("idempotency-key", "k1")], b"{}", "k1"),
        ({"idempotency.key": "body:/data/0/id"}, [], b'{"data": [{"id": 7}]}', "7"),
        ({"idempotency.key": "body:/a~1b", "body.format": "bytes"}, [], b'{"a/b": "x"}', "x"),
        ({"idempotency.key": ""}, [], b"{}", ""),
    ],
)
def test_where_keys_are(config: dict[str, str], headers: list[tuple[str, str]], body: bytes, key: str) -> None:
    assert receiver(**config).read(headers, body, NOW).key == key


@pytest.mark.parametrize(
    ("config", "headers", "body", "status"),
    [
        ({}, [], b"{}", 400),
        ({}, [("idempotency-key", " ")], b"{}", 400),
        ({}, [("idempotency-key", "k" * 256)], b"{}", 400),
        ({"idempotency.key": "body:/id"}, [], b"[]", 400),
        ({"idempotency.key": "body:/id"}, [], b'{"id": true}', 400),
        ({}, [("idempotency-key", "k")], b"{", 400),
        ({}, [("idempotency-key", "k")], b"[" * 101 + b"]" * 101, 400),
        ({}, [("idempotency-key", "k")], b"18446744073709551615", 400),
        ({"body.format": "text"}, [("idempotency-key", "k")], b"\xff", 400),
        ({"max.body.bytes": "3"}, [("idempotency-key", "k")], b"1234", 413),
        ({"signature": "hmac", "signature.secret": SECRET}, [("idempotency-key", "k")], b"not json", 401),
    ],
)
def test_what_is_refused(config: dict[str, str], headers: list[tuple[str, str]], body: bytes, status: int) -> None:
    with pytest.raises(RequestRejected) as refused:
        receiver(**config).read(headers, body, NOW)
    assert refused.value.answer.status == status


# --- keys


def test_keys_survive_a_restart_in_pages_that_leave_with_the_window() -> None:
    window, offsets = KeyWindow(1000), FakeOffsets()
    keys = [digest_of(str(number)) for number in range(2 * PAGE_KEYS + 10)]
    for begin in range(0, len(keys), 100):
        for partition, offset in window.write(keys[begin : begin + 100], NOW + begin):
            offsets.put(partition, offset)
        offsets.put(HEAD, window.head)
        assert not window.knows(keys[begin], NOW + begin), "not before the commit"
        window.commit()
    again = KeyWindow(1000)
    again.load(offsets)
    assert again.head == window.head == {"first": 0, "next": 3}
    last = NOW + 500
    assert all(again.knows(key, last) and window.knows(key, last) for key in keys)
    assert not again.knows(keys[0], NOW + 1000)
    assert again.knows(keys[300], NOW + 1000)
    assert [offset for _, offset in again.expire(NOW + 1300)] == [None]
    assert again.head == {"first": 1, "next": 3}
    again.forget(NOW + 1300)
    assert len(again) == len(keys) - 400


def test_a_key_that_comes_again_behind_its_window_is_new_also_after_a_restart() -> None:
    window, offsets = KeyWindow(1000), FakeOffsets()
    for at in (NOW, NOW + 1000):
        assert not window.knows(digest_of("k"), at)
        for partition, offset in window.write([digest_of("k")], at):
            offsets.put(partition, offset)
        offsets.put(HEAD, window.head)
        window.commit()
    again = KeyWindow(1000)
    again.load(offsets)
    assert again.knows(digest_of("k"), NOW + 1999)
    assert not again.knows(digest_of("k"), NOW + 2000)


def test_foreign_offsets_are_refused() -> None:
    connector = WebhookSourceConnector()
    assert connector.alter_offsets(CONFIG, [(HEAD, None), ({**HEAD, "page": 3}, None), (HEAD, {"first": 0, "next": 0})])
    for partition, offset in (
        ({"file": "x"}, None),
        (HEAD, {"first": 2, "next": 1}),
        ({**HEAD, "page": 0}, {"keys": {"short": 1}}),
        ({**HEAD, "page": True}, None),
    ):
        with pytest.raises(ConnectorError):
            connector.alter_offsets(CONFIG, [(partition, offset)])


# --- who is answered when


class Asked:
    """Answers, by who was asked."""

    def __init__(self, **limits: int) -> None:
        self.window = KeyWindow(1000)
        self.requests = RequestQueue(self.window, **{"most": 10, "most_bytes": 1000, "most_keys": 100, **limits})
        self.answers: dict[str, Answer] = {}

    def ask(self, who: str, key: str = "", size: int = 1, body: str = "") -> Ticket | None:
        body_digest = digest_of_body(body.encode()) if body else None
        ticket = Ticket(who, (), size, NOW, key, digest_of(key) if key else None, body_digest)
        found = self.requests.offer(ticket, self.teller(who), NOW)
        if isinstance(found, Answer):
            self.answers[who] = found
            return None
        return found

    def teller(self, who: str) -> Any:
        return lambda answer: self.answers.__setitem__(who, answer)

    def poll(self) -> list[object]:
        tickets = self.requests.take(100, 0)
        self.requests.write_keys(tickets, NOW)
        return [ticket.value for ticket in tickets]

    def settle(self, told: list[Any]) -> None:
        for tell, answer in told:
            tell(answer)


def test_nobody_hears_2xx_before_the_commit_and_one_key_is_one_record() -> None:
    asked = Asked()
    asked.ask("a", "k")
    asked.ask("b", "k")  # at once
    assert asked.poll() == ["a"]
    asked.ask("c", "k")  # while it is written
    asked.ask("d", "other")
    assert not asked.answers
    asked.settle(asked.requests.commit())
    asked.ask("e", "k")
    assert asked.answers == {"a": ACCEPTED, "b": DUPLICATE, "c": DUPLICATE, "e": DUPLICATE}
    assert asked.poll() == ["d"]


def test_what_is_aborted_is_answered_with_503_and_its_key_is_not_known() -> None:
    asked = Asked()
    asked.ask("a", "k")
    asked.poll()
    asked.ask("b", "k")
    asked.ask("c", "other")
    asked.settle(asked.requests.close())
    asked.ask("d", "k")
    assert {who: answer.status for who, answer in asked.answers.items()} == dict.fromkeys("abcd", 503)
    assert asked.answers["d"] == STOPPED
    assert not asked.window.knows(digest_of("k"), NOW)


def test_the_queue_is_bounded_by_number_by_bytes_and_by_keys() -> None:
    asked = Asked(most=2, most_keys=3)
    for who in "abc":
        asked.ask(who)
    assert asked.answers == {"c": FULL}
    assert FULL.again > 0
    asked.poll()
    asked.ask("d")
    assert asked.answers["d"] == FULL, "what is being committed counts, too"
    asked.settle(asked.requests.commit())
    asked.ask("e", size=1001)
    assert asked.answers["e"] == FULL
    for who in "xy":
        asked.ask(who, who)
    asked.poll()
    asked.settle(asked.requests.commit())
    asked.ask("z", "z")
    asked.poll()
    asked.settle(asked.requests.commit())
    asked.ask("n", "n")
    assert asked.answers["n"] == NO_ROOM, "no key is forgotten early"


def test_a_request_that_nobody_waits_for_is_dropped_unless_it_was_taken() -> None:
    asked = Asked()
    tell = asked.teller("a")
    ticket = Ticket("a", (), 1, NOW, "k", digest_of("k"))
    assert asked.requests.offer(ticket, tell, NOW) is ticket
    asked.requests.withdraw(ticket, tell)
    assert asked.poll() == []
    assert asked.requests.waiting == 0
    asked.ask("b", "k")
    asked.poll()
    taken = asked.ask("c", "k")
    assert taken is not None
    asked.requests.withdraw(taken, tell)
    asked.settle(asked.requests.commit())
    asked.ask("d", "k")
    assert asked.answers["d"] == DUPLICATE


@pytest.mark.parametrize(
    ("config", "checked"),
    [
        ({"signature": "github"}, True),
        ({"signature": "hmac"}, True),
        ({"signature": "stripe"}, True),
        ({"signature": "hmac", "signature.replay.check": "none"}, False),
        ({"signature": "hmac", "idempotency.key": "body:/id"}, False),
        ({"signature": "hmac", "idempotency.key": ""}, False),
        ({"signature": "bearer"}, False),
        ({"signature": "none", "signature.secret": ""}, False),
        ({"signature": "standard-webhooks", "idempotency.key": "header:Webhook-Id"}, False),
    ],
)
def test_bodies_are_remembered_where_their_keys_are_not_signed(config: dict[str, str], checked: bool) -> None:
    assert receiver(**{"signature.secret": STANDARD_SECRET, **config}).replays_checked is checked


def test_a_task_needs_the_headers_that_it_looks_at() -> None:
    made = receiver(
        **{"signature": "hmac", "signature.secret": SECRET, "signature.header": "X-Own", "headers.include": "X-A,x-own"}
    )
    assert made.needed_headers == ["idempotency-key", "x-a", "x-own"]
    made = receiver(**{"signature": "standard-webhooks", "signature.secret": STANDARD_SECRET, "idempotency.key": ""})
    assert made.needed_headers == ["webhook-id", "webhook-signature", "webhook-timestamp"]


def test_a_senders_trace_context_becomes_a_header_of_the_record() -> None:
    """As OpenTelemetry's Kafka instrumentations read it: plain text under the same name."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = receiver(**{"headers.include": "traceparent,tracestate", "signature": "none"})
    headers = [["Traceparent", trace], ["Idempotency-Key", "k"], ["X-Other", "x"]]
    ticket = made.read(headers, b"{}", NOW)
    assert ticket.headers == (("traceparent", trace),)
    converter = header_converter({}, {})
    assert converter.from_headers("t", ticket.headers) == [("traceparent", trace.encode())]


def test_the_same_body_under_another_key_is_refused_as_long_as_it_is_remembered() -> None:
    asked = Asked(most_keys=2)
    asked.ask("a", "k", body="body")
    asked.ask("b", "other", body="body")
    assert asked.answers == {"b": REPLAY_WAITS}, "not committed yet"
    asked.poll()
    asked.settle(asked.requests.commit())
    asked.ask("c", "other", body="body")
    asked.ask("d", "k", body="body")
    asked.ask("e", "other", body="new")
    assert asked.answers["c"] == REPLAYED
    assert asked.answers["d"] == DUPLICATE, "sent again by its sender"
    assert "e" not in asked.answers
    asked.ask("f", "third", body="third")
    assert asked.answers["f"] == NO_ROOM, "a key and its body count as one"
    assert asked.requests.replays == 2


def test_what_becomes_no_record_is_answered_and_its_key_and_body_are_free() -> None:
    asked = Asked()
    asked.ask("a", "k", body="body")
    (ticket,) = asked.requests.take(1, 0)
    asked.ask("b", "k", body="body")  # at once
    asked.settle(asked.requests.refuse(ticket, TOO_LARGE))
    assert asked.answers == {"a": TOO_LARGE, "b": TOO_LARGE}
    assert asked.requests.waiting == 0
    assert asked.requests.commit() == []
    assert asked.ask("c", "other", body="body") is not None


# --- configuration


def errors_of(**config: str) -> Mapping[str, Any]:
    return WebhookSourceConnector().validate({**CONFIG, **config})


def test_configurations_that_cannot_work_are_refused() -> None:
    assert not errors_of()
    assert names.SECRET in errors_of(signature="github")
    assert names.SIGNATURE in errors_of(**{"signature.secret": SECRET})
    assert "transaction.boundary" in errors_of(**{"transaction.boundary": "interval"})
    standard_webhooks = {"signature": "standard-webhooks", "signature.secret": STANDARD_SECRET}
    assert names.KEY in errors_of(**standard_webhooks), "a key that is not signed"
    assert not errors_of(**standard_webhooks, **{names.KEY: "header:Webhook-Id"})
    assert not errors_of(**standard_webhooks, **{names.KEY: "body:/id"})
    assert names.SECRET in errors_of(**{**standard_webhooks, "signature.secret": "no base64!"})
    assert not errors_of(**{**standard_webhooks, "signature.secret": "${file:/x:y}", names.KEY: "body:/id"})
    stripe = {"signature": "stripe", "signature.secret": SECRET, names.KEY: "body:/id"}
    assert not errors_of(**stripe)
    assert names.WINDOW in errors_of(**stripe, **{names.WINDOW: "599999"}), "a signature outlives its key"
    headers = {value.name: value.errors for value in CONFIG_DEF.validate({**CONFIG, names.HEADERS: "x," * 90 + "x"})}
    assert headers[names.HEADERS]
    checked = {value.name: value.errors for value in CONFIG_DEF.validate({**CONFIG, "idempotency.key": "id"})}
    assert checked["idempotency.key"]


def test_exactly_once_needs_a_key() -> None:
    connector = WebhookSourceConnector()
    assert connector.exactly_once_support(CONFIG) is ExactlyOnceSupport.SUPPORTED
    assert connector.exactly_once_support({**CONFIG, "idempotency.key": ""}) is ExactlyOnceSupport.UNSUPPORTED


def test_a_preview_shows_the_example_and_listens_nowhere() -> None:
    task = WebhookSourceTask()
    task.context = context = FakeContext()
    task.start({**CONFIG, names.PREVIEW: "true"})
    (record,) = polled(task)
    assert (record.key, record.value) == ("example", {"id": "1", "message": "an example"})
    assert not task.poll()
    assert not context.endpoints
    task.stop()


# --- the line between web process and task


@contextmanager
def started(timeout_ms: int) -> Iterator[tuple[WebhookSourceTask, FakeContext]]:
    """A task; timeout_ms: how long a request waits for its commit."""
    task = WebhookSourceTask()
    task.context = context = FakeContext()
    task.start({**CONFIG, "headers.include": "X-Kept", "response.timeout.ms": str(timeout_ms)})
    try:
        yield task, context
    finally:
        task.stop()


@pytest.fixture
def running() -> Iterator[tuple[WebhookSourceTask, FakeContext]]:
    with started(30_000) as both:
        yield both


def test_a_request_through_the_line(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    task, context = running

    async def ask() -> list[dict[str, Any]]:
        link = Link(context.endpoints[0])
        await link.open()
        headers = [("idempotency-key", "k"), ("x-kept", "v"), ("cookie", "c")]
        asked = asyncio.create_task(link.ask(headers, b'{"n": 1}', 60))
        records: list[SourceRecord] = []
        while not records:
            records = await asyncio.to_thread(polled, task)
        assert not asked.done()
        assert [type(each) is OffsetRecord for each in records] == [False, True, True]
        assert (records[0].key, records[0].value, records[0].headers) == ("k", {"n": 1}, (("X-Kept", "v"),))
        assert records[-1].source_offset == {"first": 0, "next": 1}
        task.commit()
        answers = [await asked, await link.ask(headers, b"{}", 60), await link.ask([], b"{}", 60)]
        link.close()
        return answers

    answers = asyncio.run(ask())
    assert [(answer["status"], answer["text"]) for answer in answers[:2]] == [(200, "accepted"), (200, "duplicate")]
    assert answers[2]["status"] == 400


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (RecordRefused("secret", too_large=True), 413),
        (RecordRefused("secret"), 422),
        (RecordRefused("secret", again=True), 503),
    ],
)
def test_what_cannot_be_converted_is_refused_alone(
    running: tuple[WebhookSourceTask, FakeContext], refusal: RecordRefused, status: int
) -> None:
    task, context = running
    context.refused["bad"] = refusal

    async def ask() -> tuple[dict[str, Any], dict[str, Any]]:
        link = Link(context.endpoints[0])
        await link.open()
        bad, good = (asyncio.create_task(link.ask([("idempotency-key", key)], b"{}", 60)) for key in ("bad", "good"))
        records: list[SourceRecord] = []
        while not (bad.done() and records):
            records += await asyncio.to_thread(polled, task)
        assert [each.key for each in records if type(each) is SourceRecord] == ["good"]
        task.commit()
        answers = await bad, await good
        link.close()
        return answers

    bad, good = asyncio.run(ask())
    assert (bad["status"], good["status"]) == (status, 200)
    assert "secret" not in bad["text"]
    assert bool(bad["again"]) is (status == 503)


def test_a_frame_that_is_too_large_is_answered_and_cuts_nobody(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    """Also one from a web process of an earlier version, which sends all headers."""
    task, context = running

    async def ask() -> list[int]:
        link = Link(context.endpoints[0])
        await link.open()
        assert link.needed_headers == frozenset({"idempotency-key", "x-kept"})
        honest = asyncio.create_task(link.ask([("idempotency-key", "k")], b"{}", 60))
        link.needed_headers = None
        wrong = [
            await link.ask([("a", "")] * 16_000, b"{}", 60),
            await link.ask([("a", "x" * 200_000)], b"{}", 60),
            await link.ask([("idempotency-key", "k")], b"x" * 600_000, 60),
            await link.ask([("idempotency-key", None)], b"{}", 60),  # type: ignore[list-item]
        ]
        while not await asyncio.to_thread(polled, task):
            pass
        task.commit()
        statuses = [each["status"] for each in (*wrong, await honest)]
        link.close()
        return statuses

    assert asyncio.run(ask()) == [431, 431, 413, 500, 200]


def test_the_task_gets_the_first_of_each_header_that_it_needs() -> None:
    link = Link(Endpoint("id", "127.0.0.1", 1, "s"))
    link.needed_headers = frozenset({"a", "b"})
    headers = [("a", "1"), ("cookie", "c"), ("a", "2"), ("b", "3")]
    assert link._choose(headers) == [("a", "1"), ("b", "3")]


def test_a_cut_connection_is_no_error_of_the_request(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    async def ask() -> None:
        link = Link(running[1].endpoints[0])
        await link.open()
        assert link._writer is not None
        link._writer.transport.abort()
        with pytest.raises(Unreachable):
            await link.ask([("idempotency-key", "k")], b"{}", 60)
        assert link.closed

    asyncio.run(ask())


def test_a_request_without_a_commit_in_time_is_to_be_sent_again() -> None:
    async def ask(endpoint: Endpoint) -> dict[str, Any]:
        link = Link(endpoint)
        await link.open()
        answer = await link.ask([("idempotency-key", "slow")], b"{}", 60)
        link.close()
        return answer

    with started(2000) as (task, context):
        answer = asyncio.run(ask(context.endpoints[0]))
        assert answer["status"] == 503, "no commit within response.timeout.ms"
        assert answer["again"] > 0
        assert not task.poll(), "what nobody waits for is dropped"


def test_requests_gather_for_a_moment_after_a_commit_only(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    task, context = running
    assert polled(task) == []
    assert context.waits == [], "a request that comes alone is taken at once"
    task.commit()
    polled(task)
    (rest,) = context.waits
    assert 0 < rest <= 0.008


def test_a_task_that_stops_sends_everybody_away(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    task, context = running

    async def ask() -> dict[str, Any]:
        link = Link(context.endpoints[0])
        await link.open()
        asked = asyncio.create_task(link.ask([("idempotency-key", "k")], b"{}", 60))
        while not await asyncio.to_thread(task.poll):
            pass
        await asyncio.to_thread(task.stop)
        answer = await asked
        with pytest.raises(Unreachable):
            await Link(context.endpoints[0]).open()
        return answer

    assert asyncio.run(ask())["status"] == 503


def test_both_ends_must_know_the_secret(running: tuple[WebhookSourceTask, FakeContext]) -> None:
    known = running[1].endpoints[0]

    async def refused(endpoint: Endpoint) -> None:
        with pytest.raises(Unreachable):
            await Link(endpoint).open()

    async def refuse_all() -> None:
        await refused(Endpoint(known.id, known.host, known.port, "other"))
        await refused(Endpoint("other", known.host, known.port, known.secret))
        # A sender that does not greet is given nothing, and its request is not taken.
        reader, writer = await asyncio.open_connection(known.host, known.port)
        text = json.dumps({"id": 1, "headers": [["idempotency-key", "k"]]}).encode()
        writer.write(len(text).to_bytes(4, "big") + b"\0\0\0\2" + text + b"{}")
        assert await reader.read() == b""
        writer.close()

    asyncio.run(refuse_all())
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        assert not running[0].poll()
