"""Texts that make a careless regular expression of ours take quadratic or cubic time: they come from any editor, record
or server.
"""

import contextlib
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import ConfigException, ConfigType, SchemaType
from ringfence.connectors.api.config_def import ConfigDef
from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.builtin.dlt_source.rest_config import redact
from ringfence.connectors.builtin.postgres.text_values import hstore_pairs, interval_micros
from ringfence.connectors.builtin.sql.settings import query_of
from ringfence.connectors.config_providers import ConfigProviders, _references
from ringfence.connectors.sdk.values import literals
from ringfence.connectors.transforms.routing import java_pattern
from ringfence.connectors.transforms.values import MaskField, cast

_LENGTH = 200_000
_SECONDS = 5.0  # a linear one takes a few milliseconds, a quadratic one an hour
_FILES = {
    "config.providers": "file",
    "config.providers.file.class": "FileConfigProvider",
    "config.providers.file.param.allowed.paths": "/nowhere",
}


def _resolve(text: str) -> object:
    return ConfigProviders(_FILES).resolve({"a": text})


def _list(text: str) -> object:
    return ConfigDef().define("a", ConfigType.LIST).parse({"a": text})


def _redact(text: str) -> object:
    return redact(ConfigDef().parse({}), ValueError(text))


_TEXTS: dict[str, tuple[Callable[[str], object], str]] = {
    "colons in a reference": (_resolve, "${" + ":" * _LENGTH),
    "references without end": (_resolve, "${a:" * _LENGTH),
    "references without colon": (_resolve, "${" * _LENGTH + "}"),
    "blanks in a list": (_list, "a" + " " * _LENGTH + "a"),
    "digits in a literal": (literals.parse, "1" * _LENGTH + "x"),
    "lists without end": (literals.parse, "[" * _LENGTH),
    "digits to cast": (lambda text: cast(None, text, SchemaType.FLOAT64), "1" * _LENGTH + "x"),
    "digits in a mask": (lambda text: MaskField().configure({"fields": "a", "replacement": text}), "1" * _LENGTH + "x"),
    "blanks in a query": (lambda text: query_of({"query": text}), " " * _LENGTH + "x"),  # type: ignore[arg-type]
    "hstore without end": (hstore_pairs, '"' + '\\"' * _LENGTH),
    "an interval of digits": (lambda text: interval_micros(text.encode()), "1" * _LENGTH),
    "addresses in an error": (_redact, "http://" * _LENGTH),
    "classes without end": (lambda text: java_pattern("regex", text), "[" * _LENGTH),
    "classes without end, escaped": (lambda text: java_pattern("regex", text), "[" * _LENGTH + "\\"),
}


@pytest.mark.parametrize("case", _TEXTS)
def test_a_hostile_text_takes_linear_time(case: str) -> None:
    use, text = _TEXTS[case]
    started = time.process_time()
    with contextlib.suppress(ConfigException, ConnectorError, ValueError):
        use(text)
    assert time.process_time() - started < _SECONDS


_KAFKAS = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


@given(st.text("${}:ab\n", max_size=25))
def test_references_are_what_kafkas_expression_finds(text: str) -> None:
    expected = [(*match.span(), match[1], match[3] or "", match[4]) for match in _KAFKAS.finditer(text)]
    assert [tuple(reference) for reference in _references(text)] == expected


@given(st.text(" \n;x", max_size=12))
def test_a_query_loses_the_semicolons_at_its_end(text: str) -> None:
    assert query_of({"query": text}) == (re.sub(r"[\s;]+\Z", "", text).strip() or None)  # type: ignore[arg-type]


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), max_size=4))
def test_hstore_pairs_are_read_again(pairs: dict[str, str | None]) -> None:
    assert hstore_pairs(", ".join(f"{_quote(key)}=>{_quote(value)}" for key, value in pairs.items())) == pairs


def _quote(text: str | None) -> str:
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
