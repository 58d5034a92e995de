"""Each converter gives the bytes that Kafka Connect 4.3.0's own gave for the same value."""

import base64

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.converters import find_converter, find_header_converter
from tests.connectors.golden.codec import Json, schema_of, value_of
from tests.connectors.golden.files import load
from tests.support.golden_cases import by_name, name_of, shown

CASES = load("converters")


def ours(case: Json) -> Json:
    schema = schema_of(case["schema"])
    value = value_of(schema, case["value"])
    try:
        if case["kind"] == "header":
            headers = find_header_converter("header.converter", case["class"])()
            headers.configure_headers(case["config"])
            made = headers.from_header("flights", "h", value, schema)
        else:
            converter = find_converter("value.converter", case["class"])()
            converter.configure(case["config"], is_key=case["key"])
            made = converter.from_record("flights", value, schema)
    except ConnectorError:
        return "error"
    return made


def theirs(case: Json) -> Json:
    if "error" in case:
        return "error"
    return None if case["result"] is None else base64.b64decode(case["result"])


def differs(case: Json, mine: Json) -> str | None:
    """Why ours is another answer on purpose; None where the two must agree."""
    name, value = name_of(case), case["value"] or {}
    tag = next(iter(value), None)
    if name == "StringConverter" and "[B@" in str(theirs(case)).replace("\\x00", ""):
        return "Java writes where an array of bytes stands in memory; here they pass as they are"
    if name == "ByteArrayConverter" and (case["schema"] or {}).get("type") == "string":
        return "a string is taken as its UTF-8 bytes"
    if case["schema"] is None:
        if name == "StringConverter" and tag in ("list", "map"):
            return "lists and mappings without a schema become JSON"
        if name == "SimpleHeaderConverter" and tag == "bytes":
            return "bytes pass as they are, so that a header can be any bytes"
        if tag == "int64" and name in ("ShortConverter", "IntegerConverter", "FloatConverter", "DoubleConverter"):
            return "Python has one type of integers"
        if tag == "float64" and name == "FloatConverter":
            return "Python has one type of floating point numbers"
        if tag == "string" and name == "ByteArrayConverter":
            return "a string is taken as its UTF-8 bytes"
    return None


@pytest.mark.parametrize("name", sorted({name_of(case) for case in CASES}))
@pytest.mark.parametrize("kind", ["converter", "header"])
def test_it_gives_the_bytes_that_kafka_connect_gives(kind: str, name: str) -> None:
    wrong = []
    for case in CASES:
        if not (case["kind"] == kind and name_of(case) == name):
            continue
        mine = ours(case)
        said = case.get("error", theirs(case))
        if (mine != theirs(case)) is not bool(differs(case, mine)):
            wrong.append(
                f"{case['config']} of {(case['schema'] or {}).get('type')} {case['value']}: {mine!r}, there {said}"
            )
    assert not wrong, "\n".join(wrong[:12]) + f"\n{len(wrong)} in all"


@pytest.mark.parametrize("case", [case for case in CASES if case["kind"] == "settings"], ids=name_of)
def test_it_has_the_settings_that_kafka_connects_has(case: Json) -> None:
    if name_of(case) == "SimpleHeaderConverter":
        keys = find_header_converter("header.converter", case["class"]).config_def()
    else:
        keys = find_converter("value.converter", case["class"]).config_def()
    assert by_name(shown(keys)) == by_name([key for key in case["result"] if key["name"] != "converter.type"])
