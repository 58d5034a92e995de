"""What a worker asks its plugin processes is what they answer."""

import json

import pytest

from ringfence.engine.plugins.calls import PLUGIN_CALLS, MakeTaskConfigs, PluginCall, StartInstance, parse
from ringfence.requests.request import MalformedRequest


def test_each_call_is_in_the_list_and_has_an_answer() -> None:
    assert set(PLUGIN_CALLS) == set(PluginCall.__subclasses__())
    for kind in PLUGIN_CALLS:
        assert "answer" in vars(kind), kind.name


def test_a_call_comes_out_of_the_pipe_as_it_went_in() -> None:
    for call in (
        StartInstance("a", {"k": "v"}, [[{"file": "f"}, {"line": 3}], [{"file": "g"}, None]], 7),
        MakeTaskConfigs("a", 2, None),
    ):
        assert parse(call.name, json.loads(json.dumps(call.to_wire()))) == call


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("eval", {}, "Unknown call"),
        ("__init__", {"registry": 1}, "Unknown call"),
        ("stop", {"connector": "a", "token": "7"}, "token"),
        ("stop", {"connector": "a", "token": 7, "more": 1}, "more"),
        ("stop", {"connector": "a"}, "token"),
        ("validate", {"plugin": "p", "config": {"k": 1}, "exactly_once": True}, "config"),
    ],
)
def test_what_is_not_a_call_is_refused(name: str, body: dict[str, object], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse(name, body)
