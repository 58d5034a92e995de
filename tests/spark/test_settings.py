"""What a sink is told: refused with the remedy, and without secrets."""

from typing import Any

import orjson
import pytest

from ringfence.fencing.kafka.open_transactions import OpenTransaction
from ringfence.spark.records import Batch, Part, SinkState, total_of, value_of_batch, value_of_part
from ringfence.spark.settings import SinkError, SinkSettings, read_settings


def read(**more: Any) -> SinkSettings:
    given: dict[str, Any] = {
        "bootstrap_servers": "broker:9092",
        "topic": "orders",
        "sink_id": "orders",
        "options": {},
        "transaction_timeout_ms": 60_000,
        "log_topic": "log",
        "repeated_batch": "compare",
        "other_checkpoint": "refuse",
        **more,
    }
    return read_settings(**given)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"bootstrap_servers": " "}, "broker:9092"),
        ({"sink_id": "a b"}, "letters, digits"),
        ({"transaction_timeout_ms": 5}, "at least 10000"),
        ({"repeated_batch": "skip"}, "'compare' or 'keep'"),
        ({"options": {"kafka.no.such": "1"}}, "no.such"),
        ({"options": {"kafka.bootstrap.servers": "b:1"}}, "as bootstrap_servers"),
        ({"options": {"transaction.timeout.ms": "1"}}, "as transaction_timeout_ms"),
        ({"options": {"kafka.sasl.jaas.config": "hunter2"}}, "login module"),
    ],
)
def test_refusals(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(SinkError, match=told) as caught:
        read(**wrong)
    assert "hunter2" not in str(caught.value)


def test_options_are_those_of_sparks_own_sink() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'
    settings = read(
        options={
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
            "kafka.compression.type": "zstd",
        }
    )
    assert settings.connection.settings["sasl.password"] == "hunter2"
    assert settings.connection.settings["security.protocol"] == "SASL_SSL"
    assert settings.producer["compression.type"] == "zstd"
    assert "hunter2" not in repr(settings)


def test_ids_of_parts_are_told_from_those_of_other_sinks() -> None:
    settings = read(sink_id="a")
    assert settings.run_of(settings.transactional_id(7, 2, 3, None)) == 7
    assert settings.run_of(settings.transactional_id(8, 2, 3, 41)) == 8
    for other in ("a-driver", read(sink_id="a-b").transactional_id(1, 0, 0, None), "b-r1-0-0", "a-r1"):
        assert settings.run_of(other) is None


def test_log_tells_which_parts_are_there() -> None:
    first, second = OpenTransaction("a-r1-0-0", 5, 1), OpenTransaction("a-r1-0-1", 6, 1)
    batch = Batch(3, "query", 1, (Part(0, 2, 10, first), Part(1, 1, 4, second)))
    state = SinkState()
    state.apply(["batch"], orjson.loads(value_of_batch(batch)))
    state.apply(["part", 0], orjson.loads(value_of_part(first, 3, 2, 10)))
    assert state.batch == batch
    assert state.missing(batch) == {1}
    # The transaction of the next batch under the same id is another one.
    state.apply(["part", 0], orjson.loads(value_of_part(OpenTransaction("a-r1-0-0", 5, 2), 4, 2, 10)))
    assert state.missing(batch) == {0, 1}


def test_same_rows_in_other_parts_are_the_same_batch() -> None:
    parts = [Part(0, 2, 2**62), Part(1, 1, 2**62 + 5)]
    assert total_of(parts).has_rows_of(total_of([Part(0, 3, 5)]))
    assert not total_of(parts).has_rows_of(total_of([Part(0, 3, 6)]))
