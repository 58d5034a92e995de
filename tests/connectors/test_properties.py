"""`connectors.properties` beside what java.util.Properties makes of the same strings (OpenJDK 17)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.sdk import properties

AS_JAVA = [
    ("a=b", {"a": "b"}),
    ("  a : b ", {"a": "b "}),
    ("a b = c", {"a": "b = c"}),
    ("a==b\r!no\r\n#no\n\t\f\nc::d", {"a": "=b", "c": ":d"}),
    ("a\\ b\\=c\\:=d", {"a b=c:": "d"}),
    ("a=1\\\n   2\\\n# no comment\nb=3", {"a": "12# no comment", "b": "3"}),
    ("# no line goes on \\\na=1", {"a": "1"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a=\\t\\n\\r\\f\\q\\\\\\u0041\\uD83D\\uDE00", {"a": "\t\n\r\fq\\A\N{GRINNING FACE}"}),
    ("a=b\\", {"a": "b"}),
    ("a=\nb\n", {"a": "", "b": ""}),
    ("=v", {"": "v"}),
    ("a=1\na=2", {"a": "2"}),
    ("path=C:\\temp", {"path": "C:\temp"}),
]


@pytest.mark.parametrize(("text", "read"), AS_JAVA)
def test_texts_mean_what_they_mean_to_java(text: str, read: dict[str, str]) -> None:
    assert properties.read(text, bare=True) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=1\n\nnonsense", "line 3 is not key=value"),
        ("a=1\\\n2\n=v", "line 3 has no key"),
        ("a=\\u00g0", r"line 1 has a \\u without four"),
        ("a=\\u12", r"line 1 has a \\u without four"),
        ("a=\\ud83d!", "line 1 has half a character"),
    ],
)
def test_what_is_refused_says_where_and_why_and_not_what(text: str, why: str) -> None:
    with pytest.raises(properties.MalformedLine, match=why) as caught:
        properties.read(text)
    assert "nonsense" not in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_back(settings: dict[str, str]) -> None:
    assert properties.write(settings).isascii()
    assert properties.read(properties.write(settings)) == settings


def test_several_connectors_each_begin_with_their_name() -> None:
    text = "topic=t\nname=a\n\nname=b\ntopic=u\n"
    assert properties.read_several(text) == [{"topic": "t", "name": "a"}, {"name": "b", "topic": "u"}]
    with pytest.raises(properties.MalformedLine, match="line 3 repeats topic: begin each"):
        properties.read_several("topic=t\nname=a\ntopic=u\nname=b")
