"""From a failure to a message and back, with a real receiver: once each, signed, tried again, to no wrong place."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
import redis
from celery import Celery
from django.core import mail
from django.db import connection
from django.db.models import F
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from ringfence import messages
from ringfence.alerts import deliveries, evaluation, rule_editing, tasks
from ringfence.alerts.conditions import Kind
from ringfence.alerts.models import Delivery, Destination, EpisodeRow, Incident, Rule, Silence, Turn, now_ms
from ringfence.projection.models import Connector, Task
from tests.alerts.conftest import Receiver

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An hour each, so that a busy machine changes nothing; after how many tries each was asked for."""
    asked: list[int] = []

    def pause(tries: int) -> int:
        asked.append(tries)
        return 3_600_000

    monkeypatch.setattr(deliveries, "pause_ms", pause)
    return asked


def hook(receiver: Receiver, kind: str = "webhook", name: str = "ops") -> Destination:
    return rule_editing.save_destination(
        {"name": name, "kind": kind, "url": receiver.url, "secret": "a-shared-secret-9"}
    ).row


def failing(*names: Destination, seconds: int = 0) -> Rule:
    Connector.objects.create(name="flights", known=True, state="RUNNING", since_ms=1)
    Task.objects.create(
        connector="flights", number=0, known=True, state="FAILED", since_ms=1, trace="Boom: the pin hunter22",
        config='{"db.password": "hunter22"}',
    )  # fmt: skip
    return rule_editing.save_rule(
        {"name": "any failure", "kind": "failed", "seconds": seconds, "destinations": [one.name for one in names]}
    )


def recover() -> None:
    """It runs, and has committed since it failed."""
    Task.objects.update(state="RUNNING", live_generation=F("generation"), live_attempt=F("attempt"), last_commit_ms=2)


def deliver_due() -> list[str]:
    return [deliveries.attempt(number) for number in deliveries.due(now_ms())]


def later() -> None:
    """The pauses before the next tries are over."""
    Delivery.objects.filter(state=deliveries.WAITING).update(due_ms=0, handed_ms=0)


def test_one_message_when_it_begins_and_one_when_it_is_over(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    failing(hook(receiver), hook(receiver, "slack", "chat"))
    now = now_ms()
    for seconds in range(3):
        evaluation.evaluate(now + seconds)
    assert Incident.objects.count() == 1
    assert deliver_due() == ["sent", "sent"]
    recover()
    evaluation.evaluate(now + 9_000)
    evaluation.evaluate(now + 12_000)
    assert Incident.objects.get().resolved_ms == now + 9_000
    later()
    assert deliver_due() == ["sent", "sent"]
    assert deliver_due() == []
    bodies = [json.loads(body) for _, body in receiver.got]
    assert [(body.get("what"), body.get("subject")) for body in bodies if "what" in body] == [
        ("firing", "task flights-0"),
        ("resolved", "task flights-0"),
    ]
    said = [body["text"] for body in bodies if "text" in body]
    assert said[0] == "[ALERT] any failure: Task 0 of flights has failed. Boom: the pin [hidden]"
    assert said[1].startswith("[RESOLVED] any failure")
    assert "s3cret-path" not in caplog.text
    assert "hunter22" not in json.dumps(list(Delivery.objects.values()) + list(Incident.objects.values()))


def test_a_webhook_is_signed_with_the_time_and_the_number(receiver: Receiver) -> None:
    failing(hook(receiver))
    evaluation.evaluate(now_ms())
    assert deliver_due() == ["sent"]
    headers, body = receiver.got[0]
    signed = headers["x-ringfence-timestamp"].encode() + b"." + body
    expected = hmac.new(b"a-shared-secret-9", signed, hashlib.sha256).hexdigest()
    assert headers["x-ringfence-signature"] == f"sha256={expected}"
    assert headers["x-ringfence-delivery"] == str(Delivery.objects.get().pk)
    assert headers["host"].startswith("localhost:")


def test_a_receiver_that_is_away_is_tried_again_after_growing_pauses(receiver: Receiver, pauses: list[int]) -> None:
    failing(hook(receiver))
    receiver.answers = [500, 429, 200]
    evaluation.evaluate(now_ms())
    for _ in range(2):
        assert deliver_due() == ["waiting"]
        assert deliver_due() == []  # its pause is not over
        later()
    assert pauses == [1, 2]
    assert deliver_due() == ["sent"]
    row = Delivery.objects.get()
    assert (row.tries, row.status, row.error) == (3, 200, "")


def test_a_resolve_message_waits_for_its_incidents_first_one(receiver: Receiver) -> None:
    failing(hook(receiver))
    receiver.answers = [503]
    now = now_ms()
    evaluation.evaluate(now)
    assert deliver_due() == ["waiting"]
    recover()
    evaluation.evaluate(now)
    assert deliver_due() == []
    later()
    assert deliver_due() == ["sent"]
    assert deliver_due() == ["sent"]
    assert [json.loads(body)["what"] for _, body in receiver.got] == ["firing", "firing", "resolved"]


@pytest.mark.parametrize("status", [302, 404])
def test_redirects_are_not_followed_and_a_refusal_is_final(receiver: Receiver, status: int) -> None:
    failing(hook(receiver))
    receiver.answers = [status]
    evaluation.evaluate(now_ms())
    assert deliver_due() == ["given up" if status == 404 else "waiting"]
    assert len(receiver.got) == 1
    row = Delivery.objects.get()
    assert str(status) in row.error
    assert "s3cret-path" not in row.error


def test_private_places_are_refused_when_it_is_sent(receiver: Receiver) -> None:
    failing(hook(receiver))
    evaluation.evaluate(now_ms())
    with override_settings(ALERTS_LOOPBACK=False):
        assert deliver_due() == ["waiting"]
    row = Delivery.objects.get()
    assert receiver.got == []
    assert "RINGFENCE_ALERTS_LOOPBACK" in row.error
    with override_settings(ALERTS_LOOPBACK=False), pytest.raises(ValueError, match="this machine itself"):
        rule_editing.save_destination({"name": "x", "kind": "webhook", "url": "http://127.0.0.1:1/x"})
    with pytest.raises(ValueError, match="never allowed"):
        rule_editing.save_destination({"name": "x", "kind": "webhook", "url": "http://169.254.169.254/latest"})


def test_a_message_that_celery_brings_twice_or_loses_is_delivered(receiver: Receiver) -> None:
    failing(hook(receiver))
    now = now_ms()
    evaluation.evaluate(now)
    (number,) = deliveries.due(now)
    assert deliveries.due(now) == []  # handed out already
    assert deliveries.due(now + 31_000) == [number]  # nobody took it
    assert [deliveries.attempt(number), deliveries.attempt(number)] == ["sent", ""]
    assert len(receiver.got) == 1
    Delivery.objects.update(state=deliveries.UNDER_WAY)  # the worker that tried it has died
    assert deliveries.due(now + 120_000) == [number]


def test_only_a_number_goes_through_redis_and_the_task_does_the_rest(
    receiver: Receiver, valkey: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = hook(receiver)
    sender = Celery("test", broker=valkey.url, set_as_current=False)
    messages.use(sender)
    sender.conf.update(task_create_missing_queues=True)
    monkeypatch.setattr(tasks, "app", sender)
    store = redis.Redis.from_url(valkey.url)
    store.delete(tasks.QUEUE)
    delivery = rule_editing.begin_test(row)
    tasks.enqueue_delivery(delivery.pk)
    (raw,) = store.lrange(tasks.QUEUE, 0, -1)
    message = json.loads(raw)
    arguments = messages.decode(base64.b64decode(message["body"]))[1]
    assert (message["headers"]["task"], message["content-type"]) == (tasks.NAME, "application/x-ringfence")
    assert arguments == {"delivery": delivery.pk}
    assert b"s3cret" not in raw
    assert tasks.deliver(**arguments) == "sent"
    assert json.loads(receiver.got[0][1])["what"] == "test"


def test_a_test_is_tried_once_and_also_where_the_destination_is_off(receiver: Receiver) -> None:
    row = hook(receiver)
    Destination.objects.update(enabled=False)
    receiver.answers = [500]
    delivery = rule_editing.begin_test(row)
    assert deliveries.attempt(delivery.pk) == "given up"
    assert Delivery.objects.get().error.endswith("answered 500")


def test_a_test_has_the_fields_of_other_messages(receiver: Receiver) -> None:
    row = hook(receiver)
    failing(row)
    evaluation.evaluate(now_ms())
    rule_editing.begin_test(row)
    assert deliver_due() == ["sent", "sent"]
    alert, trial = (json.loads(body) for _, body in receiver.got)
    assert (alert["what"], trial["what"]) == ("firing", "test")
    assert trial.keys() == alert.keys()


def test_mail_goes_through_django(receiver: Receiver) -> None:
    row = rule_editing.save_destination({"name": "duty", "kind": "mail", "recipients": ["ann@example.org"]}).row
    failing(row)
    evaluation.evaluate(now_ms())
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend"):
        mail.outbox = []
        assert deliver_due() == ["sent"]
        assert mail.outbox[0].to == ["ann@example.org"]
        assert mail.outbox[0].subject.startswith("[ALERT] any failure")
    later()
    assert deliveries.attempt(rule_editing.begin_test(row).pk) == "given up"  # no mail server is set
    assert "RINGFENCE_SMTP_URL" in Delivery.objects.order_by("pk").last().error  # type: ignore[union-attr]


def test_one_worker_at_a_time_looks_and_another_takes_over() -> None:
    now = now_ms()
    assert evaluation.take_turn("a", now)
    assert not evaluation.take_turn("b", now + 1)
    assert evaluation.take_turn("a", now + 19_000)
    assert not evaluation.take_turn("b", now + 25_000)
    assert evaluation.take_turn("b", now + 40_000)
    assert not evaluation.take_turn("a", now + 41_000)
    assert Turn.objects.count() == 1


def test_an_evaluator_that_starts_again_goes_on_with_open_incidents(receiver: Receiver) -> None:
    failing(hook(receiver))
    handed: list[int] = []
    now = now_ms()
    for holder in ("a", "b"):
        evaluation.Evaluator(holder, handed.append, lambda: True).once(now)
        now += 30_000
    assert (Incident.objects.count(), len(set(handed))) == (1, 1)
    Rule.objects.all().delete()
    evaluation.Evaluator("c", handed.append, lambda: True).once(now + 30_000)
    assert Incident.objects.get().resolved_ms > 0


def test_nothing_is_computed_while_the_database_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests wait for SQLite's lock, and what is computed grows with the connectors of all tenants."""
    failing()
    within: list[str] = []
    for name in ("read_snapshot", "follow", "evaluate_rules", "changes", "write_report"):
        computed = getattr(evaluation, name)

        def noting(*arguments: Any, name: str = name, computed: Any = computed) -> Any:
            if connection.in_atomic_block:
                within.append(name)
            return computed(*arguments)

        monkeypatch.setattr(evaluation, name, noting)
    assert len(evaluation.evaluate(now_ms()).opened) == 1
    assert within == []
    with CaptureQueriesContext(connection) as queries:
        evaluation.evaluate(now_ms())
    assert not [query["sql"] for query in queries if not query["sql"].startswith("SELECT")], "nothing has changed"


def test_many_incidents_are_opened_in_short_transactions_by_whose_turn_it_is(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    failing(hook(receiver))
    for number in range(9):
        name = f"more-{number}"
        Connector.objects.create(name=name, known=True, state="RUNNING", since_ms=1)
        Task.objects.create(connector=name, number=0, known=True, state="FAILED", since_ms=1, trace="Boom")
    monkeypatch.setattr(evaluation, "_HELD_SECONDS", 0.0)
    monkeypatch.setattr(evaluation, "_EPISODES_AT_ONCE", 3)
    real = evaluation._open
    opened: list[object] = []

    def overtaken(*arguments: Any) -> None:
        if len(opened) == 4:
            Turn.objects.update(holder="b")  # as if it had been committed between two transactions
        opened.append(arguments)
        real(*arguments)

    monkeypatch.setattr(evaluation, "_open", overtaken)
    now = now_ms()
    assert evaluation.take_turn("a", now)
    with pytest.raises(evaluation.Overtaken):
        evaluation.evaluate(now, holder="a")
    assert Incident.objects.count() == Delivery.objects.count() == 5
    evaluation.evaluate(now, holder="b")
    assert Incident.objects.count() == Delivery.objects.count() == 10
    assert EpisodeRow.objects.count() == 10


def test_no_leader_is_told_and_unknown_is_not_no() -> None:
    rule_editing.save_rule({"name": "leader", "kind": Kind.NO_LEADER.value, "seconds": 10, "destinations": []})
    answers: list[bool | None] = [None, False, None, False, True]
    evaluator = evaluation.Evaluator("a", lambda _: None, lambda: answers.pop(0))
    now = now_ms()
    opened = []
    for tick in range(5):
        evaluator.once(now + tick * 6_000)
        opened.append(Incident.objects.filter(resolved_ms=0).count())
    assert opened == [0, 0, 0, 1, 0]


def test_a_restart_into_the_same_record_resolves_nothing(receiver: Receiver) -> None:
    failing(hook(receiver))
    now = now_ms()
    evaluation.evaluate(now)
    Task.objects.update(state="RUNNING", since_ms=now)
    evaluation.evaluate(now + 5_000)
    Task.objects.update(state="FAILED", since_ms=now + 6_000)
    evaluation.evaluate(now + 10_000)
    incident = Incident.objects.get()
    assert (incident.resolved_ms, incident.failures, incident.began_ms) == (0, 2, 1)
    assert deliver_due() == ["sent"]
    Connector.objects.update(target="STOPPED")  # at rest, because somebody wants it so
    evaluation.evaluate(now + 15_000)
    assert Incident.objects.get().resolved_ms == now + 15_000


def test_a_silence_holds_messages_back_until_it_ends(receiver: Receiver) -> None:
    failing(hook(receiver))
    now = now_ms()
    silence = Silence.objects.create(connector="flights", until_ms=now + 60_000, created_ms=now)
    evaluation.evaluate(now)
    assert (Incident.objects.get().withheld, deliver_due()) == (True, [])
    evaluation.evaluate(now + 60_001)
    later()
    assert deliver_due() == ["sent"]
    silence.until_ms = now + 900_000
    silence.save()
    recover()
    evaluation.evaluate(now + 70_000)
    later()
    assert deliver_due() == ["sent"]  # whoever was told that it began is told that it is over


def test_messages_link_to_the_incident(receiver: Receiver) -> None:
    failing(hook(receiver), hook(receiver, "slack", "chat"))
    with override_settings(PUBLIC_URL="https://ringfence.example.org"):
        evaluation.evaluate(now_ms())
    assert deliver_due() == ["sent", "sent"]
    page = f"https://ringfence.example.org/ui/incidents/{Incident.objects.get().pk}"
    bodies = [json.loads(body) for _, body in receiver.got]
    assert {body.get("url") or body["text"].split()[-1] for body in bodies} == {page}
