"""docs/connectors.md and the code name the same settings: each that there is, and no other."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ringfence.connectors.api import SourceConnector
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.converters import CONVERTERS, HEADER_CONVERTERS
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.transforms.registry import PREDICATES, TRANSFORMS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "connectors.md").read_text()
BUILT_IN = [one.cls for one in PluginRegistry.discover().plugins if one.class_name.startswith("connectors.builtin.")]
SAMPLE = {
    "transforms": "t",
    "transforms.t.type": "Filter",
    "predicates": "p",
    "predicates.p.type": "RecordIsTombstone",
    "topic.creation.groups": "a",
    "topic.creation.default.partitions": "1",
}
SHORTER = {
    "topic.creation.a.exclude": ".exclude",
    "topic.creation.a.partitions": "topic.creation.default.partitions",
    "topic.creation.a.replication.factor": "topic.creation.default.replication.factor",
}
BY_WHOLE_FAMILIES = {"topic.creation.*"}


def section(title: str) -> str:
    """Below a heading, with the smaller headings in it."""
    found = re.search(rf"^(#+) {re.escape(title)}\n", TEXT, re.MULTILINE)
    assert found is not None, title
    rest = TEXT[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def spans(text: str) -> set[str]:
    """What stands in backticks; of `key=value` the key."""
    return {span.split("=")[0] for span in re.findall(r"`([^`\n]+)`", text)}


def rows(text: str) -> Iterator[list[str]]:
    """Of all tables, without their headings."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and "`" in cells[0] and not cells[0].startswith("`transforms.<alias>.type` |"):
            yield cells


def missing(wanted: Iterable[str], text: str) -> list[str]:
    said = spans(text)
    return [name for name in wanted if name not in said]


@pytest.mark.parametrize("connector", BUILT_IN, ids=lambda cls: cls.__name__)
def test_each_built_in_and_its_settings(connector: type[SourceConnector]) -> None:
    text = section(connector.__name__.removesuffix("Connector"))
    keys = connector.config_def().keys
    assert not missing(keys, text)
    assert not missing(connector.aliases, text)
    assert {name for cells in rows(text) for name in spans(cells[0])} <= keys.keys()


def general(name: str) -> str:
    """A setting of the sample, as the documentation writes it."""
    return re.sub(r"^predicates\.p\.", "predicates.<p>.", re.sub(r"^transforms\.t\.", "transforms.<alias>.", name))


def test_the_settings_of_all_connectors() -> None:
    text = section("Settings of all connectors")
    keys = {general(name) for name in source_config_def(SAMPLE).keys}
    shortened = {
        "topic.creation.a.exclude": ".exclude",
        "topic.creation.a.partitions": "topic.creation.default.partitions",
    }
    shortened["topic.creation.a.replication.factor"] = "topic.creation.default.replication.factor"
    assert not missing((shortened.get(name, name) for name in keys), text)
    table = text.partition("###")[0]
    told = {name for cells in rows(table) for name in spans(cells[0])}
    assert told - BY_WHOLE_FAMILIES <= keys


def test_converters_and_their_settings() -> None:
    text = section("Converters")
    known = {cls.__name__: set(cls.config_def().keys) for cls in CONVERTERS}
    known |= {cls.__name__: set(cls.config_def().keys) for cls in HEADER_CONVERTERS}
    assert not missing(known, text)
    for name, keys in known.items():
        assert not missing(keys, text), name
    everything = set().union(*known.values())
    for cells in rows(text):
        for name in spans(cells[0]):
            said = {one for one in spans(cells[2]) if re.fullmatch(r"[a-z][a-z.]+", one)}
            assert said & everything <= known[name], name
            assert not {one for one in said - everything if "." in one}, name


def named(classes: Iterable[type]) -> dict[str, set[str]]:
    """By the name without `$Key` or `$Value`."""
    return {cls.name.partition("$")[0]: set(cls.config_def().keys) for cls in classes}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("title", "known"),
    [("Transforms", named(TRANSFORMS)), ("Predicates", named(PREDICATES))],
    ids=["transforms", "predicates"],
)
def test_transforms_and_predicates_and_their_settings(title: str, known: dict[str, set[str]]) -> None:
    text = section(title)
    told: dict[str, set[str]] = {}
    for cells in rows(text):
        for name in spans(cells[0]):
            if not name.endswith(".type"):
                told.setdefault(name.partition("$")[0], set()).update(spans(cells[1]))
    assert told.keys() == known.keys()
    for name, keys in known.items():
        assert told[name] <= keys, name
        assert not missing(keys, text), name
