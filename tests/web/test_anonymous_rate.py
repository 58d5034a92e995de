"""How many requests without credentials an address may send."""

from ringfence.web.asgi_handler import _MOST_KNOWN, BURST, PER_SECOND, AnonymousRate, has_credentials


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_and_then_a_rate_for_each_address() -> None:
    clock = Clock()
    rate = AnonymousRate(clock)
    assert all(rate.allows("10.0.0.1") for _ in range(BURST))
    assert not rate.allows("10.0.0.1")
    assert rate.allows("10.0.0.2")
    clock.now += 2 / PER_SECOND + 0.001
    assert [rate.allows("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert sum(rate.allows(f"2001:db8::{number:x}") for number in range(2 * BURST)) == BURST, "one network"


def test_it_remembers_no_more_addresses_than_fit() -> None:
    rate = AnonymousRate(Clock())
    for number in range(_MOST_KNOWN + 10):
        rate.allows(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(rate._left) == _MOST_KNOWN


def test_credentials_are_a_header_or_a_sessions_cookie() -> None:
    assert not has_credentials([(b"host", b"x"), (b"cookie", b"csrftoken=a")], "sessionid")
    assert has_credentials([(b"authorization", b"Bearer x")], "sessionid")
    assert has_credentials([(b"cookie", b"csrftoken=a; sessionid=b")], "sessionid")
