"""Each transform and predicate gives what Kafka Connect 4.3.0's own gave for the same record."""

from collections import Counter

import pytest

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.transforms import find_predicate, find_transform
from ringfence.connectors.transforms.registry import PREDICATES, TRANSFORMS
from tests.connectors.golden.codec import Json, comparable, difference, record_json, record_of
from tests.connectors.golden.files import load
from tests.support.golden_cases import by_name, name_of, shown

CASES = load("transforms")


def ours(case: Json) -> Json:
    """What our twin makes of it, in the form of the golden file."""
    record = record_of(case["record"])
    settings = case["config"]
    try:
        if case["kind"] == "predicate":
            predicate = find_predicate("type", case["class"])()
            predicate.configure(settings)
            return {"result": predicate.test(record)}
        transform = find_transform("type", case["class"])()
        transform.configure(settings)
        answer = transform.apply(record)
    except ConfigException:
        return {"refused": True}
    except ConnectorError:
        return {"error": True}
    assert record_json(record) == case["record"], "the given record was changed"
    return {"result": None if answer is None else comparable(record_json(answer))}


def theirs(case: Json) -> Json:
    if "refused" in case or "error" in case:
        return {"refused" if "refused" in case else "error": True}
    return {"result": comparable(case["result"])}


def differs(case: Json, mine: Json) -> str | None:
    """Why ours is another answer on purpose; None where the two must agree."""
    config, name = case["config"], name_of(case)
    if "offset.field" in config:
        return "refused before a record comes: a source record has no offset"
    if config.get("timestamp.format") == "bb":
        return "refused before a record comes"
    if name.startswith("SetSchemaMetadata") and str(case.get("error")).endswith("non-struct type"):
        return "Kafka Connect 4.3.0 fails on everything but structs"
    if case["record"]["value"] == {"int64": 1_700_000_000_123_456} and "error" in mine:
        return "Python's dates end with the year 9999"
    if case["record"]["value"] == {"string": "26-2-3x"} and config["format"] == "yyyy-MM-dd":
        return "before 1582 Java counts days by the Julian calendar"
    return None


@pytest.mark.parametrize("name", sorted({name_of(case) for case in CASES if case["kind"] != "settings"}))
def test_it_gives_what_kafka_connect_gives(name: str) -> None:
    half = "key" if name.endswith("$Key") else "value"
    wrong = []
    for case in CASES:
        if not (case["kind"] != "settings" and name_of(case) == name):
            continue
        mine = ours(case)
        said = case.get("refused", case.get("error", ""))
        if (mine != theirs(case)) is not bool(differs(case, mine)):
            wrong.append(
                f"{case['config']} of {str(case['record'][half])[:60]}: {difference(mine, theirs(case))} {said}"
            )
    assert not wrong, "\n".join(wrong[:10]) + f"\n{len(wrong)} in all"


def test_every_transform_and_predicate_is_compared() -> None:
    compared = Counter(name_of(case) for case in CASES if case["kind"] != "settings")
    ours = {*(cls.name for cls in TRANSFORMS), *(cls.name for cls in PREDICATES)}
    assert set(compared) == ours - {"ExtractNewRecordState"}  # Debezium's: test_new_record_state.py


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] == "settings"], ids=name_of)
def test_it_has_the_settings_that_kafka_connects_has(case: Json) -> None:
    if ".predicates." in case["class"]:
        keys = find_predicate("type", case["class"]).config_def()
    else:
        keys = find_transform("type", case["class"]).config_def()
    assert by_name(shown(keys)) == by_name(case["result"])
