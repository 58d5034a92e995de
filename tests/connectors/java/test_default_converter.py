"""The converter of Java connectors where nobody names one: what a Python connector writes, too."""

import pytest

from ringfence.connectors.api import Struct
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.api.schemas import BYTES, INT32, INT64, STRING, Schema, array, struct
from ringfence.connectors.converters import TextOrJsonConverter
from ringfence.connectors.java.runtime import converters_of
from tests.connectors.java.conftest import Start
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("plugins", "shared_folder")


def test_structs_become_json_and_all_else_stays_text(start: Start) -> None:
    row = struct({"id": INT32, "name": STRING})
    numbers = array(INT32, optional=True)
    shapes: list[tuple[Schema | None, object]] = [
        (row, Struct(row, {"id": 1, "name": "Ann"})),
        (numbers, [1, 2]),
        (numbers, None),
        (None, {"a": 1}),
        (STRING, "a line"),
        (BYTES, b"AB"),
        (INT64, 7),
        (None, None),
    ]
    converter = TextOrJsonConverter()
    converter.configure({}, is_key=False)
    worker = converters_of({"value.converter": "TextOrJsonConverter"})
    batch = eventually(start("shapes", value_converter=worker["value.converter"]).poll, 60, "a batch", pause=0.0)
    assert isinstance(batch, MixedBatch)
    assert batch.values == [converter.from_record("topic", value, schema) for schema, value in shapes]
    assert batch.values[0] == b'{"id":1,"name":"Ann"}'
