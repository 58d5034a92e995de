"""The language that chooses records: what it says, what it refuses, and that it is never run as code."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.engine.browsing.expression import Wrong, parse
from ringfence.engine.browsing.reader_calls import Decoder
from ringfence.engine.plugins.secret_removal import Scrubber

RECORD = {
    "key": "EU-7",
    "value": {
        "carrier": "UA",
        "delay": 15.5,
        "tags": ["new", "x"],
        "lines": [{"sku": "A1-7"}],
        "odd name": True,
        "n": None,
    },
    "headers": {"source": "a"},
    "partition": 2,
    "offset": 40,
    "timestamp": 1_700_000_000_000,
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('value.carrier == "UA"', True),
        ("value.carrier == 'UA' and value.delay > 15 and not headers.other", True),
        ("value.delay > 15 or value.delay < 3 and partition == 0", True),
        ("(value.delay > 15 or value.delay < 3) and partition == 0", False),
        ('value["odd name"]', True),
        ("value.odd", False),
        ("value.n == null and value.nothing == null", True),
        ("value.delay == '15.5'", False),
        ("value.delay < 'a'", False),
        ("partition == true", False),
        ('value.tags contains "new" and value contains "carrier" and key contains "U-"', True),
        ("value.tags[0] == 'new' and value.tags[-1] == 'x' and value.tags[9] == null", True),
        ('value.lines[0].sku like "A*-7" and not (key like "EU-?8")', True),
        ('key startswith "EU" and key endswith "7"', True),
        ("offset >= 40 and timestamp != 0", True),
        ("not not partition", True),
        ('key == "EU\\u002d7"', False),
    ],
)
def test_an_expression_says_whether_a_record_is_wanted(text: str, wanted: bool) -> None:
    assert parse(text)(RECORD) is wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "value.", "value ==", "== 3", "(value", "value)", "import os", "__import__('os')", "value.x()", "1 2",
        "value[x]", "value[1.5]", "lambda: 1", "value; 1", "a" * 1001, "(" * 200 + "1" + ")" * 200, "not " * 200 + "1",
        "value == \"open", "key = 1",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        parse(text)


@given(st.text(max_size=80), st.sampled_from(["value", "value.a and ", "not (", '"', "x like ", ""]))
def test_any_text_is_read_or_refused(text: str, before: str) -> None:
    with contextlib.suppress(Wrong):
        assert parse(before + text)(RECORD) in (True, False)


def test_a_pattern_of_stars_ends_soon() -> None:
    slow = parse(f'value like "{"*a" * 100}b"')
    assert slow({"value": "a" * 5_000}) is False


@pytest.mark.parametrize(
    ("data", "kind", "shown"),
    [
        (None, "null", "null"),
        (b"", "empty", ""),
        (b'{"a":"hunter22"}', "JSON", '{\n  "a": "[hidden]"\n}'),
        (b"is hunter22", "string", "is [hidden]"),
        (b'{"schema":{"type":"int32"},"payload":7}', "JSON with schema", "7"),
        (b"\x00\x00\x00\x00\x07hunter22", "hex", "00 00 00 00 07 5b 68 69 64 64 65 6e 5d"),
        (b'{"a":"\\u202e"}', "JSON", '{\n  "a": "\\u202e"\n}'),
        ("a\u202e".encode(), "hex", "61 e2 80 ae"),
    ],
)
def test_bytes_are_decoded_without_secrets(data: bytes | None, kind: str, shown: str) -> None:
    found = Decoder(None, Scrubber(["hunter22"])).decode(data)
    assert (found.kind, found.text) == (kind, shown)
    assert "hunter22" not in str(found.value)
