"""RegexRouter, DropHeaders and Filter: tables of cases; RegexRouter's values are those of Kafka Connect 4.3.0."""

import pytest

from ringfence.connectors.api import ConfigException, SourceRecord
from ringfence.connectors.transforms import build_transforms

JAVA = "org.apache.kafka.connect.transforms."


def record(topic: str = "flights", headers: tuple[str, ...] = ()) -> SourceRecord:
    return SourceRecord({"f": 1}, {"p": 2}, topic, "v", "k", [(name, b"") for name in headers], 5, 3)


def apply(kind: str, given: SourceRecord, **settings: str) -> SourceRecord | None:
    config = {"transforms": "t", "transforms.t.type": kind}
    (transform,) = build_transforms(config | {f"transforms.t.{name}": value for name, value in settings.items()})
    return transform.apply(given)


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "expected"),
    [
        ("(.*)", "x-$1", "flights", "x-flights"),
        ("fl(.*)", "$1", "flights", "ights"),
        ("ights", "x", "flights", "flights"),
        ("(?<who>[a-z]+)-(\\d+)", "${who}.$2", "abc-12", "abc.12"),
        ("(a)(b)?c", "$1$2$12", "ac", "aa2"),
        ("(a)(b)", "\\$1", "ab", "$1"),
        ("a*?", "x", "aa", "xaa"),
        ("a", "$0$0", "a", "aa"),
    ],
)
@pytest.mark.parametrize("prefix", ["", JAVA])
def test_regex_router(regex: str, replacement: str, topic: str, expected: str, prefix: str) -> None:
    given = record(topic, ("h",))
    routed = apply(prefix + "RegexRouter", given, regex=regex, replacement=replacement)
    assert routed is not None
    assert routed.topic == expected
    assert (routed is given) is (expected == topic)
    assert (routed.value, routed.key, routed.headers, routed.timestamp, routed.partition) == (
        "v",
        "k",
        [("h", b"")],
        5,
        3,
    )


@pytest.mark.parametrize("replacement", ["$2", "${no}", "$", "$x"])
def test_regex_router_refuses_what_is_no_group(replacement: str) -> None:
    with pytest.raises(ConfigException, match="is not a group of the pattern"):
        apply("RegexRouter", record(), regex="(a)", replacement=replacement)


@pytest.mark.parametrize(
    ("names", "before", "after"),
    [("a", ("a", "b", "a"), ["b"]), ("a, b", ("b",), []), ("A", ("a",), ["a"]), ("x", (), [])],
)
def test_drop_headers(names: str, before: tuple[str, ...], after: list[str]) -> None:
    kept = apply(JAVA + "DropHeaders", record(headers=before), headers=names)
    assert kept is not None
    assert [name for name, _ in kept.headers] == after


def test_filter_drops() -> None:
    assert apply("Filter", record()) is None
    assert apply(JAVA + "Filter", record()) is None
