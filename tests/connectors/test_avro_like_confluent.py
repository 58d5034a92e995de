"""AvroConverter registers the schemas and writes the bytes of Confluent's, whose code Apicurio's converter has."""

import base64
import json
from collections import Counter

import pytest

from ringfence.connectors.api import ConnectorError, SchemaType
from ringfence.connectors.converters import find_converter
from ringfence.connectors.converters.registry.avro import AvroConverter
from tests.connectors.golden.codec import Json, difference, schema_of, value_of
from tests.connectors.golden.files import load

CASES = load("avro")


@pytest.fixture(scope="module")
def converter() -> AvroConverter:
    made = find_converter("value.converter", "AvroConverter")()
    assert isinstance(made, AvroConverter)
    made.configure({"schema.registry.url": "http://localhost:1"}, is_key=False)
    made.trial()  # the registry is not asked
    return made


def ours(converter: AvroConverter, case: Json) -> Json:
    """The schema, in its order, and the bytes behind the id."""
    schema = schema_of(case["schema"])
    try:
        data = converter.from_record("flights", value_of(schema, case["value"]), schema)
        if data is None:
            return None
        return ordered(converter.form(schema)[0]) if schema is not None else None, data[5:]
    except ConnectorError:
        return "error"


def theirs(case: Json) -> Json:
    if "error" in case:
        return "error"
    return None if case["result"] is None else (ordered(case["avro"]), base64.b64decode(case["result"]))


def ordered(text: str) -> Json:
    """JSON in which the order counts."""
    return json.loads(text, object_pairs_hook=lambda pairs: [[name, value] for name, value in pairs])


def differs(case: Json) -> str | None:
    """Why ours is another answer on purpose; None where the two must agree."""
    schema, value = schema_of(case["schema"]), case["value"]
    if value is None:
        return "a null is a tombstone, whatever its schema" if theirs(case) == "error" else None
    if schema is None:
        if next(iter(value)) in ("date", "decimal"):
            return None  # refused on both sides
        return "without a schema a value has the plain one of its type, there one of all types; structures are refused"
    if schema.type is SchemaType.STRUCT and schema.optional:
        return "Apicurio registers what the struct alone is; Confluent's converter what it is with null, as here"
    return {
        "differs.Pairs": "two kinds of pairs, with one name there: nobody could read them; here they are refused",
        "differs.Near": "only Java's parser finds a struct without a namespace again: here it has the one around it",
    }.get(schema.name or "")


def test_it_has_the_schemas_and_bytes_of_confluents(converter: AvroConverter) -> None:
    wrong = []
    for case in CASES:
        mine, other = ours(converter, case), theirs(case)
        if (mine != other) is not bool(differs(case)):
            shown = (
                difference(list(mine), list(other))
                if isinstance(mine, tuple) and isinstance(other, tuple)
                else f"{mine!r}, there {other!r}"
            )
            wrong.append(f"{json.dumps(case['schema'])} of {case['value']}: {shown}")
    assert not wrong, "\n".join(wrong[:12]) + f"\n{len(wrong)} in all"


def test_each_difference_is_one() -> None:
    found = Counter(why for case in CASES if (why := differs(case)))
    assert len(found) == 5
    assert sum(found.values()) < len(CASES) / 8
