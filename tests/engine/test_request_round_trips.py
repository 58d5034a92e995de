"""Each field of each request between processes arrives. The requests are made from the types of their fields."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringfence.engine.leader.commands import COMMANDS, parse
from ringfence.engine.plugins.calls import PLUGIN_CALLS
from ringfence.engine.questions import QUESTIONS
from ringfence.requests.request import Request
from tests.support.examples import examples
from tests.support.strategies import record_strategy

QUICK = settings(
    max_examples=examples(25), phases=[Phase.generate, Phase.shrink], suppress_health_check=[HealthCheck.too_slow]
)
KINDS: list[type[Request[Any]]] = [*COMMANDS, *QUESTIONS, *PLUGIN_CALLS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@QUICK
@given(data=st.data())
def test_each_field_of_a_request_arrives(kind: type[Request[Any]], data: st.DataObject) -> None:
    request = data.draw(record_strategy(kind, sequence=list))
    assert kind.from_wire(json.loads(json.dumps(request.to_wire()))) == request


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@QUICK
@given(data=st.data())
def test_each_field_of_a_command_arrives_beside_its_connector(kind: type[Any], data: st.DataObject) -> None:
    command = data.draw(record_strategy(kind, sequence=list))
    assert parse(command.name, command.on, command.body()) == command
