"""An import costs about what it weighs: aliases, depth and mass in YAML are refused while they are scanned."""

import contextlib
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.api.v1 import transfer
from ringfence.client import documents
from ringfence.client.output import ClientError
from ringfence.connectors.sdk import properties
from ringfence.http.errors import ConnectError
from ringfence.web.new.form_state import read_pasted
from ringfence.yaml_documents import MalformedYaml, read_documents

MOST_CPU_SECONDS = 2.0


def laughs(levels: int) -> str:
    """A few lines whose `name` stands for 10 to the power of `levels` strings."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join([*lines, f"name: *a{levels - 1}", "config: {topic: t}", ""])


COSTLY = {
    "aliases": laughs(7),
    "one alias": "- name: &n a\n  config:\n    topic: *n\n",
    "a merged map": "base: &b {topic: t}\nname: a\nconfig:\n  <<: *b\n",
    "mass": "- name: a\n  config:\n" + "".join(f"    key-{number}: v\n" for number in range(90_000)),
    "a wide list": "[" + "a," * 120_000 + "a]",
    "depth in flow": "[" * 250_000,
    "depth in blocks": "- " * 120_000,
    "maps in maps": "{a: " * 60_000,
    "tags": "".join(f"%TAG !a{number}! x\n" for number in range(15_000)) + "---\n[[" * 20,
    "a map as a key": "? {a: b}\n: c\n",
    "a list as a name": "- name: [a, b]\n  config: {topic: t}\n",
    "a map as a name": "- name: {a: b}\n  config: {topic: t}\n",
    "documents": "--- {name: a}\n--- {name: b}\n",
}


@pytest.mark.parametrize("what", COSTLY)
def test_what_costs_more_than_it_weighs_is_refused_at_once(what: str) -> None:
    began = time.process_time()
    with pytest.raises(ConnectError) as refused:
        transfer.parse(COSTLY[what], "yaml")
    assert refused.value.status_code == 400
    assert time.process_time() - began < MOST_CPU_SECONDS
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("form", transfer.FORMATS)
def test_a_large_import_is_refused_before_it_is_read(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "read_several", None)
    monkeypatch.setattr(transfer, "read_documents", None)
    monkeypatch.setattr(transfer, "read", None)
    for text in ("x" * (transfer.MOST_BYTES + 1), "\u20ac" * (transfer.MOST_BYTES // 3 + 1)):
        with pytest.raises(ConnectError, match="262,144 bytes"):
            transfer.parse(text, form)


def test_what_is_pasted_into_the_form_has_the_same_limits() -> None:
    for text in (f"name: a\n{laughs(7)}", "name=a\n" + "x=y\n" * 100_000):
        began = time.process_time()
        with pytest.raises(ConnectError):
            read_pasted(text)
        assert time.process_time() - began < MOST_CPU_SECONDS


def test_a_file_of_the_client_may_have_aliases_but_not_without_end() -> None:
    shared = "- name: a\n  config: &c {topic: t}\n- name: b\n  config: *c\n"
    assert documents.parse(shared, "x.yaml") == [
        {"name": "a", "config": {"topic": "t"}},
        {"name": "b", "config": {"topic": "t"}},
    ]
    for bomb in (laughs(7), COSTLY["depth in flow"]):
        began = time.process_time()
        with pytest.raises(ClientError):
            documents.parse(bomb, "x.yaml")
        assert time.process_time() - began < MOST_CPU_SECONDS


def test_many_connectors_share_no_limit() -> None:
    entries = [{"name": f"c{number}", "config": {f"key-{key}": "v" for key in range(400)}} for number in range(20)]
    assert read_documents(yaml.safe_dump(entries)) == [entries]
    entry = {"name": "c", "config": {f"key-{number}": "v" for number in range(500)}}
    with pytest.raises(MalformedYaml, match="1,000 values"):
        read_documents(yaml.safe_dump([entry]))


def test_continued_lines_cost_no_more_than_others() -> None:
    began = time.process_time()
    assert len(properties.read("a=" + "b\\\n" * 80_000)["a"]) == 80_000
    assert time.process_time() - began < MOST_CPU_SECONDS


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
_VALUES = st.recursive(
    _TEXT, lambda of: st.lists(of, max_size=4) | st.dictionaries(_TEXT, of, max_size=4), max_leaves=8
)


@settings(max_examples=100, deadline=None)
@given(_VALUES, st.booleans())
def test_what_is_left_reads_as_before(value: Any, flow: bool) -> None:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text = yaml.dump(value, Dumper=Plain, default_flow_style=flow, allow_unicode=True)
    assert read_documents(text) == [yaml.load(text, Loader=yaml.BaseLoader)]


@given(st.text(st.sampled_from("ab:-?[]{},&*!|>'\"%#@`\n \t0~<=."), max_size=60))
def test_nothing_else_than_a_refusal_comes_of_any_text(text: str) -> None:
    for aliases in (False, True):
        with contextlib.suppress(MalformedYaml):
            read_documents(text, aliases=aliases)
