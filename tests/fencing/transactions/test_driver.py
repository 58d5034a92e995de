"""The loop around the state machine: what becomes due between two looks at the clock is not slept through."""

import json
import socket
import time
from itertools import count

import pytest

from ringfence.connectors.sdk import egress, worker_limits
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task import clients
from ringfence.fencing.transactions.broker_connection import Access, Lane
from ringfence.fencing.transactions.messages import CommitOffsets, EndTransaction, GroupMember
from ringfence.fencing.transactions.producer import Driver, Producer, _lane_of, parse_member
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Outgoing


class Due(StateMachine):
    """Has something to do a moment after each poll."""

    def __init__(self) -> None:
        super().__init__("id", 1000)
        self.polls = 0
        self._at = 0.0

    def poll(self, now: float) -> list[Outgoing]:
        self.polls += 1
        self._at = now + 0.000_001
        return []

    def next_time(self, now: float) -> float | None:
        return self._at if self._at > now else None


def test_what_becomes_due_at_once_is_done_at_once() -> None:
    machine = Due()
    driver = Driver(machine, [("nowhere", 1)], Access("id", "1", egress.look_up, None), 30.0)
    started = time.monotonic()
    assert driver.run(lambda: machine.polls >= 5, Deadline.after(10))
    assert time.monotonic() - started < 1.0
    driver.close()


def test_a_wake_ends_the_wait() -> None:
    machine = StateMachine("id", 1000)
    driver = Driver(machine, [("nowhere", 1)], Access("id", "1", egress.look_up, None), 30.0)
    driver.wake()
    started = time.monotonic()
    looks = count()
    driver.run(lambda: next(looks) >= 1, Deadline.after(10))
    assert time.monotonic() - started < 0.9
    driver.close()
    driver.wake()  # of one that is closed


def test_an_address_that_is_not_allowed_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a broker of another cluster, whose answers name where the others are."""
    monkeypatch.setattr(worker_limits, "_current", [])
    monkeypatch.setenv(worker_limits.ENVIRONMENT, json.dumps({egress.EGRESS_ALLOW: "public"}))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        connection = Connection(f"127.0.0.1:{server.getsockname()[1]}")
        producer = Producer(connection, "id", look_up=clients._look_up_allowed)
        with pytest.raises(Retriable, match="not allowed"):
            producer.init(Deadline.after(0.3))
        producer.close()
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_groups_offsets_wait_for_no_record_where_a_late_one_is_refused() -> None:
    member = GroupMember("g", 3, "m")
    with_epochs, without = (CommitOffsets("id", 7, 1, member, {("t", 0): 5}, implicit) for implicit in (True, False))
    assert (_lane_of(with_epochs), _lane_of(without)) == (Lane.GROUP, Lane.ALL)
    assert _lane_of(EndTransaction("id", 7, 1, committed=True, implicit=True)) is Lane.ALL


def test_group_metadata_of_the_client() -> None:
    """As librdkafka writes it: the flag before the instance says that there is none."""
    member = parse_member(b"CGMDv2:\x07\0\0\0group\0member\0\x01")
    assert (member.group, member.generation, member.member, member.instance) == ("group", 7, "member", None)
    assert parse_member(b"CGMDv2:\x07\0\0\0group\0member\0\x00static\0").instance == "static"
