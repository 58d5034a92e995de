"""DltSource under the kernel, with a real HTTP server: each row once through kills, by pages and by passes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from ringfence.connectors.builtin.dlt_source.task import DltSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Stage
from tests.support.attempts import WITHOUT_TRANSACTIONS, Attempt, Attempts
from tests.support.orders_api import OrdersApi
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

TEXT = "org.apache.kafka.connect.storage.StringConverter"


def configure(stage: Stage, settings: Mapping[str, str]) -> dict[str, str]:
    """Records whose values are the rows' ids, in the topic of the stage."""
    return {
        "name": str(stage.connector),
        "connector.class": "DltSource",
        "tasks.max": "1",
        "topic.prefix": stage.data.removesuffix("orders"),
        "poll.interval.ms": "100",
        "transforms": "id,topic",
        "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.id.field": "id",
        "transforms.topic.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.topic.regex": ".*",
        "transforms.topic.replacement": stage.data,
        "key.converter": TEXT,
        "value.converter": TEXT,
        "transaction.boundary": "connector",
        "exactly.once.support": "required",
        **settings,
    }


@contextmanager
def reading_after_kills(
    stage: Stage, api: OrdersApi, settings: Mapping[str, str], worker: Mapping[str, str] | None = None
) -> Iterator[Attempt]:
    """The fourth attempt, when all is visible: three were killed while they read, and each time rows were added."""
    limits = {"egress.allow": "loopback", **(worker or {})}
    with Attempts(stage, configure(stage, settings), DltSourceTask, limits) as attempts:
        for least in (1, 1001, 2001):
            running = attempts.start()
            # Killed while it reads on: the rows for it come as soon as the first of this life are visible.
            attempts.await_visible(least, pause=0.02)
            api.add(1000)
            running.kill()
        attempts.start()
        attempts.await_visible(len(api.rows), distinct=True, pause=0.1)
        yield attempts.newest


@pytest.mark.parametrize("checkpoint", ["page", "pass"])
def test_each_row_once_while_tasks_are_killed(stage: Stage, checkpoint: str) -> None:
    with OrdersApi(page=40) as api:
        api.add(1000)
        settings = {"rest.config": api.config(row_order="asc"), "checkpoint": checkpoint}
        with reading_after_kills(stage, api, settings) as last:
            assert last.stop()["trace"] is None
            assert stage.visible() == list(range(len(api.rows))), "a row is missing, or there twice"


def test_without_transactions_rows_come_twice(stage: Stage) -> None:
    """So the test above can tell."""
    with OrdersApi(page=40) as api:
        api.add(1000)
        settings = {"rest.config": api.config(row_order="asc"), "checkpoint": "page"}
        with reading_after_kills(stage, api, settings, WITHOUT_TRANSACTIONS) as last:
            assert last.stop()["trace"] is None
            assert {*stage.visible()} == {*range(len(api.rows))}
            assert len(stage.visible()) > len(api.rows)


def test_each_change_once_while_tasks_are_killed(stage: Stage) -> None:
    """Read as a whole each time: rows are added, and none comes again after a kill."""
    with OrdersApi(page=40) as api:
        api.add(1000)
        endpoint = {"path": "orders", "data_selector": "data"}
        paginator = {"type": "offset", "limit": api.page, "total_path": None, "stop_after_empty_page": True}
        resource = {"name": "orders", "primary_key": "id", "endpoint": {**endpoint, "paginator": paginator}}
        rest = json.dumps({"client": {"base_url": api.url}, "resources": [resource]})
        with reading_after_kills(stage, api, {"rest.config": rest, "changes.only": "true"}) as last:
            asked = len(api.requests)
            eventually(lambda: len(api.requests) > asked + 2 * len(api.rows) // api.page, 60, "two more readings")
            assert last.stop()["trace"] is None
            assert sorted(stage.visible()) == list(range(len(api.rows))), "a row is missing, or there twice"


def test_rows_that_cannot_be_read_are_skipped_with_a_dead_letter(stage: Stage) -> None:
    """`errors.tolerance` holds for reading: a number that no record can hold, and a row without a cursor."""
    letters = f"{stage.group}-letters"
    create_topics(stage.connection, [TopicSpec(letters)], Deadline.after(30))
    with OrdersApi(page=40) as api:
        api.add(200)
        api.rows[50]["n"] = 10**30
        api.rows[120] |= {"updated_at": None}
        config = configure(stage, {"rest.config": api.config(), "checkpoint": "pass"})
        config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
        config["errors.deadletterqueue.topic.replication.factor"] = "1"
        stage.configure(config)
        stage.count()
        attempt = Attempt(stage, 1, config, class_name(DltSourceTask), {"egress.allow": "loopback"})
        try:
            rest = [number for number in range(200) if number not in (50, 120)]
            eventually(lambda: len(stage.visible()) >= len(rest), 60, lambda: attempt.log, pause=0.1)
            assert attempt.stop()["trace"] is None
            assert stage.visible() == rest
        finally:
            attempt.close()
    log = TopicLog(stage.connection, letters)
    try:
        found = [json.loads(record.value or b"")["id"] for record in log.read_to_end(Deadline.after(30))]
    finally:
        log.close()
    assert sorted(found) == [50, 120]
