"""What is said of a topic that cannot be described: that it is missing, only where a broker says so."""

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.local.ports import free_port
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually


def test_a_missing_topic_is_named_as_missing(broker: Broker) -> None:
    name = unique("missing")

    def said() -> str:
        """On a busy machine, a second may not be enough for the broker to answer at all."""
        with pytest.raises(Retriable) as raised:
            topic_identity(Connection(broker.bootstrap, client_id="test"), name, Deadline.after(1))
        return str(raised.value)

    eventually(lambda: f"Topic {name} does not exist" in said(), 20, said)


def test_behind_a_broker_that_is_away_no_topic_is_called_missing() -> None:
    with pytest.raises(Retriable, match="describing topic there") as raised:
        topic_identity(Connection(f"127.0.0.1:{free_port()}", client_id="test"), "there", Deadline.after(1))
    assert "does not exist" not in str(raised.value)
