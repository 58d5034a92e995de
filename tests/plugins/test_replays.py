"""What the chain makes of dead letters: written, dropped, failed again, and never to a topic of the cluster."""

import base64
from typing import Any

import pytest

from ringfence.connectors.api import SourceRecord, Struct
from ringfence.connectors.api.schemas import INT32, STRING, struct
from ringfence.engine.plugins.dead_letter_replay import Settings, convert_letters
from ringfence.engine.plugins.errors import BadRequest
from ringfence.fencing.records.dead_letter import PREFIX, as_bytes, record_text

ROW = struct({"id": INT32, "pin": STRING})
CONFIG = {"name": "c", "key.converter": "StringConverter", "value.converter": "JsonConverter"}
BARE = {**CONFIG, "value.converter.schemas.enable": "false"}


def letter(record: SourceRecord, kept: str = "") -> dict[str, Any]:
    """As the engine sends it."""
    key, value = as_bytes(record.key), as_bytes(record.value)
    told = {"topic": record.topic, "source.partition": "{}", "source.offset": "null"}
    told |= {"record": kept or record_text(record, key, value)}
    headers = [[PREFIX + name, base64.b64encode(text.encode()).decode()] for name, text in told.items()]
    sent = [None if part is None else base64.b64encode(part).decode() for part in (key, value)]
    return {"place": [0, 3], "timestamp_ms": 5, "key": sent[0], "value": sent[1], "headers": headers}


def made(config: dict[str, str], *letters: dict[str, Any], refused: frozenset[str] = frozenset()) -> Any:
    return convert_letters(Settings(config, {}), letters, refused, lambda text: text.replace("hunter2", "[hidden]"))


VALUE = Struct(ROW, {"id": 7, "pin": "hunter2"})
RECORD = SourceRecord({}, None, "t", VALUE, "k", [("h", "x")], 9, None, None, ROW)


def test_the_record_takes_the_whole_chain() -> None:
    inserted = {"transforms": "i", "transforms.i.type": "HoistField$Value", "transforms.i.field": "row"}
    ((call, why, creation),) = [each.values() for each in made({**BARE, **inserted}, letter(RECORD))]
    assert (why, creation) == ("", None)
    assert (call["topic"], call["partition"], call["timestamp"]) == ("t", -1, 9)
    assert base64.b64decode(call["value"]) == b'{"row":{"id":7,"pin":"hunter2"}}'
    assert base64.b64decode(call["key"]) == b"k"
    assert call["headers"] == [["h", base64.b64encode(b"x").decode()]]


def test_the_connectors_rules_say_how_its_topic_is_created() -> None:
    """Here, since their patterns are a user's: one that takes for ever ends with this process."""
    rules = {
        "topic.creation.groups": "small",
        "topic.creation.small.include": "t+",
        "topic.creation.small.partitions": "1",
    }
    rules |= {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    (conversion,) = made({**BARE, **rules}, letter(RECORD))
    assert conversion["creation"] == {"name": "t", "partitions": 1, "replication": 1, "config": {}}


def test_each_letter_has_an_outcome_of_its_own() -> None:
    tombstone = SourceRecord({}, None, "t", None, "k")
    drop = {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.predicate": "p"}
    drop |= {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    lost = letter(RECORD, '{"version": 1, "lost": "it was too large"}')
    numbers = {**CONFIG, **drop, "value.converter": "IntegerConverter"}
    dropped, unkept, failed = made(numbers, letter(tombstone), lost, letter(RECORD))
    assert dropped == {"call": None, "why": "", "creation": None}
    assert "it was too large" in unkept["why"]
    assert failed["call"] is None
    assert "VALUE_CONVERTER" in failed["why"]
    assert "hunter2" not in failed["why"]


def test_no_record_goes_to_a_topic_of_the_cluster() -> None:
    (kept,) = made(BARE, letter(RECORD), refused=frozenset({"t"}))
    assert kept["call"] is None
    assert "which is reserved" in kept["why"]
    (nowhere,) = made(BARE, letter(SourceRecord({}, None, "no topic", b"x")))
    assert "cannot be a topic" in nowhere["why"]


def test_a_chain_that_cannot_be_made_is_refused_without_secrets() -> None:
    with pytest.raises(BadRequest, match=r"\[hidden\]"):
        made({**CONFIG, "value.converter": "hunter2"}, letter(RECORD))
