"""Predicates: which records a transform is for."""

from collections.abc import Mapping

import pytest

from ringfence.connectors.api import ConfigException, SourceRecord
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.transforms import build_transforms
from ringfence.connectors.transforms.registry import PREDICATES, TRANSFORMS

JAVA = "org.apache.kafka.connect.transforms."


def record(topic: str = "flights", value: object = None, headers: tuple[str, ...] = ()) -> SourceRecord:
    return SourceRecord({"f": 1}, {"p": 2}, topic, value, {"id": 1}, [(name, b"") for name in headers])


def config(kind: str, settings: Mapping[str, str], **more: str) -> dict[str, str]:
    """InsertField on the key where the predicate `p` is true."""
    return {
        "name": "c",
        "connector.class": "x",
        "transforms": "t",
        "transforms.t.type": f"{JAVA}InsertField$Key",
        "transforms.t.static.field": "marked",
        "transforms.t.static.value": "yes",
        "transforms.t.predicate": "p",
        "predicates": "p",
        "predicates.p.type": kind,
        **{f"predicates.p.{name}": value for name, value in settings.items()},
        **{"transforms.t." + name: value for name, value in more.items()},
    }


def marked(settings: Mapping[str, str], given: SourceRecord) -> bool:
    (transform,) = build_transforms(settings)
    changed = transform.apply(given)
    assert changed is not None
    assert changed is given or changed.key == {"id": 1, "marked": "yes"}
    return changed is not given


CASES = [
    ("HasHeaderKey", {"name": "h"}, record(headers=("a", "h", "h")), True),
    ("HasHeaderKey", {"name": "h"}, record(headers=("H", "hh")), False),
    ("HasHeaderKey", {"name": "h"}, record(), False),
    ("RecordIsTombstone", {}, record(value=None), True),
    ("RecordIsTombstone", {}, record(value=""), False),
    ("RecordIsTombstone", {}, record(value={}), False),
    ("TopicNameMatches", {"pattern": "fl.*"}, record("flights"), True),
    ("TopicNameMatches", {"pattern": "fl"}, record("flights"), False),
    ("TopicNameMatches", {"pattern": "lights"}, record("flights"), False),
    ("TopicNameMatches", {"pattern": "(?i)FLIGHTS|b"}, record("flights"), True),
    ("TopicNameMatches", {"pattern": "(?<x>a)-\\k<x>"}, record("a-a"), True),
    ("TopicNameMatches", {"pattern": "\\d+"}, record("٣"), False),
    ("TopicNameMatches", {"pattern": "a\\\\(?<b>c)"}, record("a\\c"), True),
    ("TopicNameMatches", {"pattern": "\\(?<b>"}, record("<b>"), True),
    ("TopicNameMatches", {"pattern": "[(?<a]"}, record("P"), False),
]


@pytest.mark.parametrize(("name", "settings", "given", "expected"), CASES)
@pytest.mark.parametrize("prefix", ["", f"{JAVA}predicates."])
def test_a_transform_is_for_the_records_that_its_predicate_accepts(
    name: str, settings: dict[str, str], given: SourceRecord, expected: bool, prefix: str
) -> None:
    assert marked(config(prefix + name, settings), given) is expected
    assert marked(config(prefix + name, settings, negate="TRUE"), given) is not expected
    assert marked(config(prefix + name, settings, negate="false"), given) is expected


@pytest.mark.parametrize(
    ("given", "setting", "message"),
    [
        (config("TopicNameMatches", {}), "predicates.p.pattern", "Missing required configuration"),
        (config("TopicNameMatches", {"pattern": "("}), "predicates.p.pattern", "Invalid regex"),
        (config("TopicNameMatches", {"pattern": ""}), "predicates.p.pattern", "String must be non-empty"),
        (config("TopicNameMatches", {"pattern": "\\p{Lu}"}), "predicates.p.pattern", "Java's regular expressions"),
        (config("TopicNameMatches", {"pattern": "[a-z&&[^b]]"}), "predicates.p.pattern", "Java's regular expressions"),
        (config("HasHeaderKey", {"name": ""}), "predicates.p.name", "String must be non-empty"),
        (config("InsertField$Value", {}), "predicates.p.type", "Available: HasHeaderKey, RecordIsTombstone"),
        (config("RecordIsTombstone", {}, predicate="q"), "transforms.t.predicate", "lists p; add q and its type"),
        (config("RecordIsTombstone", {}, negate="x"), "transforms.t.negate", "either true or false"),
        (config("RecordIsTombstone", {"plugin.version": "9"}), "predicates.p.plugin.version", "9 is not installed"),
        ({**config("RecordIsTombstone", {}), "predicates": "p,p"}, "predicates", "Duplicate alias"),
    ],
)
def test_a_bad_predicate_is_refused_in_validation_and_at_start(
    given: dict[str, str], setting: str, message: str
) -> None:
    wrong = {value.name: value.errors for value in source_config_def(given).validate(given) if value.errors}
    assert list(wrong) == [setting]
    assert message in wrong[setting][0]
    if setting != "predicates":
        with pytest.raises(ConfigException, match=message.split("(")[0]):
            build_transforms(given)


def test_forms_know_the_settings_of_transforms_and_predicates() -> None:
    given = config("HasHeaderKey", {"name": "h"})
    values = {value.name: value for value in source_config_def(given).validate(given)}
    assert values["transforms.t.type"].recommended_values == [cls.aliases[0] for cls in TRANSFORMS]
    assert values["predicates.p.type"].recommended_values == [cls.aliases[0] for cls in PREDICATES]
    assert values["transforms.t.plugin.version"].value == "4.3.0"
    assert values["transforms.t.replace.null.with.default"].value is True
    assert values["transforms.t.negate"].value is False
    keys = source_config_def(given).keys
    for group, names in (
        ("Transforms: t", ["type", "plugin.version", "predicate", "negate", "topic.field"]),
        ("Predicates: p", ["type", "plugin.version", "name"]),
    ):
        of = [key for key in keys.values() if key.group == group]
        assert [key.order_in_group for key in of] == list(range(len(of)))
        assert [key.name.split(".", 2)[2] for key in of][: len(names)] == names


def test_every_name_is_known_once() -> None:
    for classes in (TRANSFORMS, PREDICATES):
        names = [name for cls in classes for name in (cls.name, *cls.aliases)]
        assert len(names) == len(set(names))
