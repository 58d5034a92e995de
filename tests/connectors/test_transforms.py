import re
from datetime import date

import pytest

from ringfence.connectors.api import ConfigException, ConnectorError, SourceRecord, Struct
from ringfence.connectors.api.schemas import INT64, struct
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.transforms import build_transforms


def record(value: object, key: object = None, timestamp: int | None = None) -> SourceRecord:
    return SourceRecord({"f": 1}, {"p": 2}, "flights", value, key, (), timestamp, 3)


def insert(**settings: str) -> dict[str, str]:
    own = {"transforms.a." + name.replace("_", "."): value for name, value in settings.items()}
    return {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value", **own}


def test_insert_field_adds_what_is_known_of_the_record() -> None:
    config = insert(
        topic_field="t!", partition_field="p?", timestamp_field="ts", static_field="s", static_value="fixed"
    )
    (transform,) = build_transforms(config)
    original = record({"a": 1}, timestamp=99)
    changed = transform.apply(original)
    assert changed is not None
    assert changed.value == {"a": 1, "t": "flights", "p": 3, "ts": 99, "s": "fixed"}
    assert original.value == {"a": 1}
    assert (changed.source_offset, changed.partition, changed.timestamp) == ({"p": 2}, 3, 99)


def test_insert_field_works_on_keys_and_leaves_tombstones_alone() -> None:
    config = {
        "transforms": "k",
        "transforms.k.type": "InsertField$Key",
        "transforms.k.static.field": "s",
        "transforms.k.static.value": "x",
    }
    (transform,) = build_transforms(config)
    changed = transform.apply(record(None, key={"id": 1}))
    assert changed is not None
    assert (changed.key, changed.value) == ({"id": 1, "s": "x"}, None)
    tombstone = record(None)
    assert transform.apply(tombstone) is tombstone


def test_a_struct_needs_no_schema_beside_it_and_a_mapping_with_one_becomes_a_struct() -> None:
    schema = struct({"a": INT64})
    (transform,) = build_transforms(insert(topic_field="t"))
    alone, mapping = record(Struct(schema, {"a": 1})), record({"a": 1})
    mapping.value_schema = schema
    for given in (alone, mapping):
        changed = transform.apply(given)
        assert changed is not None
        assert isinstance(changed.value, Struct)
        assert (changed.value["a"], changed.value["t"], changed.value_schema) == (1, "flights", changed.value.schema)


def test_insert_field_refuses_what_is_no_mapping() -> None:
    (transform,) = build_transforms(insert(topic_field="t"))
    with pytest.raises(ConnectorError, match="has a string as its value"):
        transform.apply(record("a line"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"id": 1}, "This is an object. Name the fields, as in spec=id:int64."),
        ([1], "This is an array."),
        (date(2026, 1, 1), "This is a date. A date, time or decimal needs its schema."),
    ],
)
def test_cast_says_what_it_was_given_in_words_of_data(value: object, words: str) -> None:
    config = {"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int64"}
    (transform,) = build_transforms(config)
    with pytest.raises(ConnectorError) as refused:
        transform.apply(record(value))
    assert words in str(refused.value)
    assert not re.search(r"\b(dict|list|str|int|Struct)\b", str(refused.value)), "no class of Python"


def test_transforms_run_in_their_order() -> None:
    config = {
        "transforms": "b,a",
        **{f"transforms.{alias}.type": "InsertField$Value" for alias in "ab"},
        **{f"transforms.{alias}.static.field": "who" for alias in "ab"},
        **{f"transforms.{alias}.static.value": alias for alias in "ab"},
    }
    current: SourceRecord | None = record({})
    for transform in build_transforms(config):
        assert current is not None
        current = transform.apply(current)
    assert current is not None
    assert current.value == {"who": "a"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms": "a", "transforms.a.type": "Nothing"}, "Available: Cast.Key, Cast.Value, DropHeaders"),
        ({"transforms": "a"}, 'Missing required configuration "transforms.a.type"'),
        (insert(offset_field="o"), "no Kafka offset"),
        (insert(topic_field="t", predicate="p"), "predicates lists nothing; add p and its type"),
        (
            insert(topic_field="t", negate="true"),
            "no config 'transforms.a.predicate' defining a predicate to be",
        ),
        (insert(topic_field="t", plugin_version="9.9"), "Version 9.9 is not installed"),
    ],
)
def test_a_bad_transform_is_refused_at_start_and_in_validation(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        build_transforms(config)
    values = source_config_def(config).validate({"name": "c", "connector.class": "x", **config})
    assert any(message.split(":")[0].split("(")[0] in error for value in values for error in value.errors)


def test_what_is_not_there_yet_is_refused_and_never_ignored() -> None:
    config = {
        "name": "c",
        "connector.class": "x",
        "key.converter.plugin.version": "1",
    }
    refused = {value.name for value in source_config_def(config).validate(config) if value.errors}
    assert refused == set(config) - {"name", "connector.class"}


def test_the_defaults_of_the_common_settings_are_accepted() -> None:
    config = {"name": "c", "connector.class": "x"}
    texts = {info["name"]: info["default_value"] for info in source_config_def(config).infos()}
    spelled = {str(name): str(text) for name, text in texts.items() if text}
    assert not [value for value in source_config_def(config).validate(spelled | config) if value.errors]
    assert source_config_def(config).groups() == [
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    ]


def test_an_error_names_the_transform_and_not_its_predicate() -> None:
    config = {
        "transforms": "pick",
        "transforms.pick.type": "ExtractField$Value",
        "transforms.pick.field": "id",
        "transforms.pick.predicate": "broken",
        "predicates": "broken",
        "predicates.broken.type": "RecordIsTombstone",
    }
    (transform,) = build_transforms(config)
    assert transform.class_name == "ExtractFieldValue"
