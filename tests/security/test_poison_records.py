"""One record never hides a page, takes a worker's time, or tells a short secret."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import ConfigDef, ConfigType, ConnectorError
from ringfence.connectors.converters.registry.reading import ReadValue
from ringfence.engine.browsing.expression import TooManySteps, is_like, parse
from ringfence.engine.browsing.reader_calls import DecodedValue, Decoder
from ringfence.engine.plugins.secret_removal import Redactor, Scrubber

SECRET = "hunter22"


def nest(depth: int, open: str, close: str, inside: str) -> bytes:
    return (open * depth + inside + close * depth).encode()


class AnyReader:
    """Returns or raises what a test wants."""

    def __init__(self, result: object) -> None:
        self._result = result

    def read(self, data: bytes) -> ReadValue:
        if isinstance(self._result, BaseException):
            raise self._result
        return ReadValue(7, "AVRO", "R", self._result)


def decode(data: bytes, result: object | None = None) -> DecodedValue:
    reader: Any = None if result is None else AnyReader(result)
    return Decoder(reader, Scrubber([SECRET])).decode(data)


@pytest.mark.parametrize("depth", [101, 480, 990, 50_000])
@pytest.mark.parametrize(("open", "close"), [("[", "]"), ('{"a":', "}")])
def test_a_deep_record_is_shown_as_text(depth: int, open: str, close: str) -> None:
    value = decode(nest(depth, open, close, f'"{SECRET}"'))
    assert value.kind == "string"
    assert "more than 100 levels" in value.problem
    assert value.text.startswith(open * 50)
    assert SECRET not in value.text
    assert json.dumps(value.as_json(10, 10))


def test_a_record_of_100_levels_is_shown_as_json() -> None:
    value = decode(nest(100, "[", "]", f'"{SECRET}"'))
    assert (value.kind, value.problem) == ("JSON", "")
    assert SECRET not in value.text


def deep(depth: int) -> object:
    value: object = SECRET
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "result", [deep(51), deep(20_000), RecursionError(), MemoryError(), ConnectorError("no"), KeyError()]
)
def test_whatever_a_registrys_value_does_the_record_is_shown(result: object) -> None:
    value = decode(b"\x00\x00\x00\x00\x07\xff", result)
    assert value.kind == "hex"
    assert value.problem


def test_a_wide_and_deep_record_takes_little_time_and_memory() -> None:
    document = nest(99, "[", "]", ",".join(["1"] * 120_000))
    started = time.process_time()
    value = decode(document)
    assert len(value.text) < 4 * len(document)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("depth", [480, 50_000])
def test_the_scrubber_hides_what_it_cannot_search(depth: int) -> None:
    clean = Scrubber([SECRET]).value(deep(depth))
    level = 0
    while isinstance(clean, dict | list):
        clean = clean["a"] if isinstance(clean, dict) else clean[0]
        level += 1
    assert clean == "[hidden]"
    assert level <= 101


# Filters


def slow(text: str, pattern: str) -> bool:
    """The definition."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return slow(text, pattern[1:]) or (bool(text) and slow(text[1:], pattern))
    return bool(text) and pattern[0] in ("?", text[0]) and slow(text[1:], pattern[1:])


@given(st.text("ab", max_size=8), st.text("ab?*", max_size=6))
def test_like_is_what_its_definition_says(text: str, pattern: str) -> None:
    assert is_like(text, pattern) is slow(text, pattern)


@pytest.mark.parametrize(
    "pattern", ["*" + "a" * 900 + "b", "*a" * 450 + "b*", "*a?" * 300 + "b", "*" + "a?" * 450 + "b*"]
)
def test_like_takes_linear_time(pattern: str) -> None:
    started = time.process_time()
    assert not is_like("a" * 262_144, pattern)
    assert time.process_time() - started < 3  # 50 to 110 s without


RECORD: Mapping[str, Any] = {"value": {"text": "a" * 250_000, "list": list(range(120_000))}, "key": "a" * 250_000}


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(["value.list contains -1"] * 36),
        " or ".join(['value.text like "*a?a?b"'] * 35),
        " or ".join(['value.text like "*' + "?" * 180 + 'b"'] * 4),
    ],
)
def test_an_expression_has_a_number_of_steps_for_a_record(text: str) -> None:
    condition = parse(text)
    started = time.process_time()
    with pytest.raises(TooManySteps):
        condition(RECORD)
    assert time.process_time() - started < 3
    assert not condition({"value": {}, "key": ""})  # each record has its own


def test_what_people_write_has_enough_steps() -> None:
    text = 'value.text like "*a*b*c*" or value.list contains 119999 or key contains "b" and value.text endswith "a"'
    assert parse(text)(RECORD)


# Short secrets


def redactor(password: str) -> Redactor:
    definition = ConfigDef().define("password", ConfigType.PASSWORD).define("user", ConfigType.STRING)
    return Redactor({"password": password, "user": "ann"}, [definition])


def test_a_short_secret_is_no_oracle() -> None:
    told = redactor("o")("closed the connection")
    assert "cl" not in told
    assert told.startswith("[hidden]")
    assert redactor("o")("refused") == "refused"


def test_longer_secrets_are_hidden_inside_messages_as_before() -> None:
    assert redactor("letme")("bad letme here") == "bad [hidden] here"


def test_without_definitions_short_values_are_no_secrets() -> None:
    assert Redactor({"tasks.max": "1", "url": "http://u:pw1234@h"}, None)("1 of 1 failed") == "1 of 1 failed"
