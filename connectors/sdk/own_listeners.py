"""The platform's own listeners, which no configuration reaches, whatever `egress.allow` says.

A connector that an editor points at a web process, Redis, a Kafka controller, Spark or a task that receives requests
would speak there with the platform's standing. On this machine the kernel says whose a listener is, so ports that
nobody knows beforehand are found, too: those of processes in the tree that this process's environment names
(`process_tree.MARK`). Elsewhere, and while a listener starts again, addresses count: `declare`.

The broker that the workers use stays open, since connectors read and write there with logins of their own.
"""

import contextlib
import ipaddress
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ringfence.connectors.process_tree import MARK, any_holder_in

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ENTRY: Final = re.compile(r"^(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<low>\d{1,5})(?:-(?P<high>\d{1,5}))?)?$")
_NAME: Final = re.compile(r"^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$")
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_NAME_SECONDS: Final = 30.0
_MOST_VERDICTS: Final = 1000


class _Entry:
    """An address, network or name, with ports. Raises ValueError if it is none of these."""

    def __init__(self, text: str) -> None:
        match = _ENTRY.match(text.lower())
        if match is None:
            raise ValueError(f"{text!r} is not an address, a network or a host name, with or without :port")
        self.host = match["host"].strip("[]").rstrip(".")
        self.low = int(match["low"] or 0)
        self.high = int(match["high"] or match["low"] or 65535)
        self._networks: tuple[Network, ...] | None = None
        self._until = float("inf")
        with contextlib.suppress(ValueError):
            self._networks = (ipaddress.ip_network(self.host, strict=False),)
        if self._networks is None:
            if not _NAME.match(self.host):
                raise ValueError(f"{text!r} is not an address, a network or a host name, with or without :port")
            self._until = 0.0

    def covers(self, address: Address, port: int) -> bool:
        return self.low <= port <= self.high and any(address in network for network in self._read_networks())

    def _read_networks(self) -> tuple[Network, ...]:
        """Return what it stands for. A name is looked up again after a while; where that fails, what it was counts."""
        if time.monotonic() >= self._until:
            with contextlib.suppress(OSError, UnicodeError, ValueError):
                self._networks = tuple(
                    ipaddress.ip_network(str(info[4][0]).partition("%")[0])
                    for info in socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
                )
            self._until = time.monotonic() + _NAME_SECONDS
        return self._networks or ()


_closed: list[_Entry] = []
_open: list[_Entry] = []
_verdicts: dict[frozenset[int], bool] = {}
_lock: Final = threading.Lock()


def parse(entries: Iterable[str]) -> list[_Entry]:
    """Return the entries, `host`, `host:port` or `host:from-to`. Raises ValueError for one that cannot be read."""
    return [_Entry(each) for each in entries]


def declare(closed: Iterable[str], brokers: Iterable[str]) -> None:
    """Set, for this process, the addresses of listeners that the kernel cannot tell about, and those of the workers'
    Kafka, which stay open. An entry that cannot be read is left out.
    """
    _closed[:] = _readable(closed)
    _open[:] = [entry for entry in _readable(brokers) if entry.low]  # one without a port would open all ports there


def _readable(entries: Iterable[str]) -> Iterator[_Entry]:
    for each in entries:
        with contextlib.suppress(ValueError):
            yield _Entry(each)


def is_broker(address: Address, port: int) -> bool:
    """Return whether this is one of the addresses that the workers' Kafka was declared with."""
    return any(entry.covers(getattr(address, "ipv4_mapped", None) or address, port) for entry in _open)


def is_own(address: Address, port: int) -> bool:
    """Return whether this is a listener of the platform."""
    address = getattr(address, "ipv4_mapped", None) or address
    if is_broker(address, port):
        return False
    return any(entry.covers(address, port) for entry in _closed) or _is_held_here(address, port)


def _is_held_here(address: Address, port: int) -> bool:
    root = os.environ.get(MARK, "")
    if not root.isdecimal() or not _is_of_this_machine(address):
        return False
    inodes = frozenset(_listening(address, port))
    if not inodes:
        return False
    with _lock:
        verdict = _verdicts.get(inodes)
    if verdict is None:
        verdict = any_holder_in(inodes, os.getuid(), int(root))
        with _lock:
            if len(_verdicts) >= _MOST_VERDICTS:
                _verdicts.clear()
            _verdicts[inodes] = verdict
    return verdict


def _is_of_this_machine(address: Address) -> bool:
    """Only an address of this machine can be bound."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(address), 0))
        return True
    return False


def _listening(address: Address, port: int) -> Iterator[int]:
    """Yield the inodes of the sockets that accept connections to the address."""
    for table in _TABLES:
        with contextlib.suppress(OSError, ValueError):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                host, _, number = fields[1].rpartition(":")
                if fields[3] == _LISTENS and int(number, 16) == port:
                    bound = _read_address(host)
                    if bound.is_unspecified or bound == address:
                        yield int(fields[9])


def _read_address(text: str) -> Address:
    """As /proc/net writes it: words of 32 bits in this machine's order."""
    data = bytes.fromhex(text)
    words = struct.unpack(f"={len(data) // 4}I", data)
    address = ipaddress.ip_address(struct.pack(f"!{len(words)}I", *words))
    return getattr(address, "ipv4_mapped", None) or address
