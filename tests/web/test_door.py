"""Which connections a web process keeps, without any connection."""

import pytest

from ringfence.access.client_address import group_of
from ringfence.web.door import PROBES, Door, State

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def test_the_longest_idle_connection_of_the_busiest_address_is_dropped() -> None:
    door: Door[str] = Door(4, 4)
    for name, address in (("b1", B), ("a1", A), ("a2", A), ("a3", A)):
        assert door.open(name, address) is None
    door.change("a1", State.ANSWERING)
    door.change("a2", State.ANSWERING)
    door.change("a2", State.IDLE)  # idle for a shorter time than a3
    assert door.open("c1", C) == "a3"
    assert door.open("c2", C) == "a2"
    assert door.open("c3", C) in ("c1", "c2")
    assert len(door) == 4
    assert door.refusal("c3", "/ui/", C) == ""


def test_an_address_makes_room_of_its_own() -> None:
    door: Door[str] = Door(100, 2)
    for name in ("a1", "a2"):
        assert door.open(name, A) is None
    assert door.open("b1", B) is None
    assert door.open("a3", A) == "a1"
    door.change("a2", State.ARRIVING)
    door.change("a3", State.ANSWERING)
    assert door.open("a4", A) == "a2", "what still arrives goes before what is being answered"
    door.change("a4", State.ANSWERING)
    assert door.open("a5", A) is None
    assert door.refusal("a5", "/ui/", A)
    assert not door.refusal("a3", "/ui/", A), "those that were there first go on"
    assert not door.refusal("b1", "/ui/", B)
    door.close("a3")
    assert not door.refusal("a5", "/ui/", A)


@pytest.mark.parametrize("path", sorted(PROBES))
def test_a_probe_is_always_answered(path: str) -> None:
    door: Door[str] = Door(2, 2)
    for name in ("a1", "a2"):
        door.open(name, A)
        door.change(name, State.ANSWERING)
    assert door.open("probe", B) is None
    assert door.refusal("probe", path, B) == ""
    assert door.refusal("probe", f"{path}/x", B)
    assert door.refusal("probe", f"/ui/?next={path}", B)
    assert door.open("b2", B) == "probe", "it waits for nothing any more"


def test_behind_a_proxy_requests_are_counted_by_the_address_that_it_names() -> None:
    door: Door[str] = Door(100, 2, behind_proxy=True)
    for number in range(50):
        assert door.open(f"p{number}", "127.0.0.1") is None
    with door.count_request(A), door.count_request(A):
        assert door.refusal("p1", "/ui/", A)
        assert not door.refusal("p1", "/health/live", A)
        assert not door.refusal("p1", "/ui/", B)
    assert not door.refusal("p1", "/ui/", A)


def test_nothing_is_kept_of_what_is_closed() -> None:
    door: Door[str] = Door(2, 1)
    for number in range(5):
        door.open(f"a{number}", A)
        door.change(f"a{number}", State.ANSWERING)
    for number in range(5):
        door.close(f"a{number}")
        door.close(f"a{number}")
        door.change(f"a{number}", State.IDLE)
    assert len(door) == 0
    assert not door._counts
    assert not door._extra
    assert not any(door._states.values())


def test_a_network_of_ipv6_is_one_address() -> None:
    assert group_of("2001:db8::1") == group_of("2001:db8::ffff:1") != group_of("2001:db8:0:1::1")
    assert group_of("::ffff:10.0.0.1") == group_of("10.0.0.1")
    assert group_of("unix:" + "x" * 1000) == "unix:" + "x" * 95
