"""Where a webhook may lead: public addresses only, by the very address that was checked. Pure."""

import socket
from collections.abc import Iterable

import pytest

from ringfence.alerts.ssrf_guard import AddressDenied, AllowedNetworks, check_form, target

SHUT, PRIVATE, LOOPBACK = AllowedNetworks(), AllowedNetworks(private=True), AllowedNetworks(loopback=True)


def names(*addresses: str) -> object:
    return lambda _host, _port: list(addresses)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "gopher://example.org", "//example.org/", "example.org/x", "", "https://",
        "https://user:secret@example.org/", "https://exa mple.org/", "https://example.org:70000/", "http://[::1", "http://a\nb/",
    ],
)  # fmt: skip
def test_only_http_addresses_without_passwords(url: str) -> None:
    with pytest.raises(AddressDenied) as refused:
        check_form(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "allowed", "reached"),
    [
        ("93.184.216.34", SHUT, True),
        ("2606:4700::1111", SHUT, True),
        ("10.1.2.3", SHUT, False),
        ("10.1.2.3", PRIVATE, True),
        ("192.168.0.9", SHUT, False),
        ("172.16.0.1", LOOPBACK, False),
        ("100.64.0.1", SHUT, False),
        ("fd00::1", SHUT, False),
        ("127.0.0.1", SHUT, False),
        ("127.0.0.1", PRIVATE, False),
        ("127.9.9.9", LOOPBACK, True),
        ("::1", SHUT, False),
        ("::ffff:127.0.0.1", PRIVATE, False),
        ("::ffff:10.0.0.1", SHUT, False),
        ("169.254.169.254", AllowedNetworks(True, True), False),
        ("fe80::1%eth0", AllowedNetworks(True, True), False),
        ("0.0.0.0", AllowedNetworks(True, True), False),
        ("224.0.0.1", AllowedNetworks(True, True), False),
    ],
)
def test_private_networks_are_shut(address: str, allowed: AllowedNetworks, reached: bool) -> None:
    resolve = names(address)
    if reached:
        found = target("https://hooks.example.org/T/x?y=1", allowed, resolve)  # type: ignore[arg-type]
        assert (found.address, found.host, found.port, found.path) == (address, "hooks.example.org", 443, "/T/x?y=1")
        assert "hooks" not in found.url
        assert found.host_header == "hooks.example.org"
        return
    with pytest.raises(AddressDenied) as refused:
        target("https://hooks.example.org/T/x", allowed, resolve)  # type: ignore[arg-type]
    assert "/T/x" not in str(refused.value)


def test_one_bad_address_of_many_is_enough() -> None:
    with pytest.raises(AddressDenied):
        target("https://x.example.org/", SHUT, names("93.184.216.34", "10.0.0.1"))  # type: ignore[arg-type]


def test_a_name_that_nobody_knows_is_said_so() -> None:
    def nobody(_host: str, _port: int) -> Iterable[str]:
        raise socket.gaierror

    with pytest.raises(AddressDenied, match="cannot be found"):
        target("https://x.example.org/", SHUT, nobody)
