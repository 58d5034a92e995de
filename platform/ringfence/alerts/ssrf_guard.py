"""Restricts where messages may be sent, so that a webhook's address gives no access to private networks (SSRF).

The name is resolved here, each of its addresses must be allowed, and the connection goes to one of these same
addresses. So a name that resolves differently later (DNS rebinding) has no effect.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ringfence.connectors.sdk import own_listeners
from ringfence.connectors.sdk.egress import is_forbidden, parse_address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Iterable[str]]


class AddressDenied(Exception):
    """The address is not allowed. The message is for users, and contains at most the host's name."""


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """private: addresses of private networks; loopback: this machine. Both are forbidden by default."""

    private: bool = False
    loopback: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The address to connect to, and the host name."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def url(self) -> str:
        """The URL with the address in place of the name."""
        literal = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{literal}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        literal = f"[{self.host}]" if ":" in self.host else self.host
        return literal if usual else f"{literal}:{self.port}"


def _look_up(host: str, port: int) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def check_form(url: str) -> None:
    """Raise `AddressDenied` unless it is an http(s) URL. Nothing is resolved."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise AddressDenied("The address cannot be read: write it as https://host/path") from None
    if parts.scheme not in ("http", "https"):
        raise AddressDenied("The address must begin with https:// or http://")
    if not parts.hostname:
        raise AddressDenied("The address names no host: write it as https://host/path")
    if parts.username or parts.password:
        raise AddressDenied(
            "A name and password in the address are not accepted: put a token into the path or use the signature"
        )
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise AddressDenied("The address contains spaces or control characters")


def target(url: str, allowed: AllowedNetworks, resolve: Resolve = _look_up) -> Target:
    """Resolve and check the URL. Returns where to connect. Raises `AddressDenied`."""
    check_form(url)
    parts = urlsplit(url)
    host = str(parts.hostname)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        addresses = list(dict.fromkeys(resolve(host, port)))
    except (OSError, UnicodeError):
        raise AddressDenied(f"The host {host} cannot be found: check its name and this machine's DNS") from None
    if not addresses:
        raise AddressDenied(f"The host {host} has no address")
    for each in addresses:
        address = parse_address(each)
        own = "is a part of this platform, which no setting opens" if own_listeners.is_own(address, port) else ""
        trouble = own or _trouble(address, allowed)
        if trouble:
            raise AddressDenied(f"The host {host} {trouble}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, addresses[0], path)


def _trouble(address: Address, allowed: AllowedNetworks) -> str:
    if address.is_loopback:
        return "" if allowed.loopback else "is this machine itself: set RINGFENCE_ALERTS_LOOPBACK=1 to allow that"
    if is_forbidden(address):
        return "has an address that is never allowed (link-local, multicast, unspecified or a metadata service)"
    if address.is_global:
        return ""
    return "" if allowed.private else "is in a private network: set RINGFENCE_ALERTS_PRIVATE=1 to allow that"
