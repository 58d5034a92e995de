"""Finds the socket of this machine at the other end of a loopback connection, in Linux's table of sockets.

Both ends of such a connection are sockets of this kernel, and each has the user id of its creator and an inode. The
kernel is asked by netlink's `sock_diag`, whose cost does not depend on the number of sockets; otherwise /proc/net is
read. The result is None if neither exists, as on macOS, or if the process has closed its socket: then the table has no
inode.
"""

import contextlib
import ipaddress
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

CONNECTION = "ringfence.connection"
"""The key in a request's scope of what the server remembers for its connection, a dictionary."""

Address = tuple[str, int]
_TABLES = ((Path("/proc/net/tcp"), socket.AF_INET), (Path("/proc/net/tcp6"), socket.AF_INET6))
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
_PORTS_ADDRESSES = "!HH16s16s"
_NO_INODE = 0
_AFTER_ID = 4 + struct.calcsize(_PORTS_ADDRESSES) + 12
_ANSWER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Peer:
    """The socket at the other end: its creator's user id, and its inode, by which its processes are found."""

    uid: int
    inode: int


def find_peer(peer: Address, server: Address) -> Peer | None:
    """Return the other end of the connection from `peer` to `server`, both as the server sees them; None if unknown."""
    return _by_netlink(peer, server) or _by_table(peer, server)


def _pack(host: str, family: int) -> bytes | None:
    """The address as sockets of the family hold it: IPv6 sockets hold those of IPv4 mapped."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if family == socket.AF_INET:
        return address.packed if address.version == 4 else None
    return address.packed if address.version == 6 else b"\0" * 10 + b"\xff\xff" + address.packed


def _by_netlink(peer: Address, server: Address) -> Peer | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        source, target = _pack(peer[0], family), _pack(server[0], family)
        if source is None or target is None:
            continue
        with contextlib.suppress(OSError, AttributeError, struct.error):
            if other_end := _ask(family, (source, peer[1]), (target, server[1])):
                return other_end
    return None


def _ask(family: int, source: tuple[bytes, int], target: tuple[bytes, int]) -> Peer | None:
    """inet_diag_req_v2 and inet_diag_msg of linux/inet_diag.h."""
    identity = struct.pack(_PORTS_ADDRESSES, source[1], target[1], source[0], target[0])
    identity += struct.pack("=I2I", 0, _NO_COOKIE, _NO_COOKIE)
    request = struct.pack("=4BI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + identity
    header = struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(_ANSWER_SECONDS)
        netlink.send(header + request)
        answer = netlink.recv(4096)
    if struct.unpack_from("=IH", answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    ports = struct.unpack_from("!HH", answer, 16 + 4)
    uid, inode = struct.unpack_from("=II", answer, 16 + _AFTER_ID + 12)
    return Peer(uid, inode) if inode != _NO_INODE and ports == (source[1], target[1]) else None


def _by_table(peer: Address, server: Address) -> Peer | None:
    for table, family in _TABLES:
        source, target = _pack(peer[0], family), _pack(server[0], family)
        if source is None or target is None:
            continue
        addresses = [f"{_hexadecimal(source)}:{peer[1]:04X}", f"{_hexadecimal(target)}:{server[1]:04X}"]
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines():
                fields = line.split()
                if fields[1:3] == addresses and int(fields[9]) != _NO_INODE:
                    return Peer(int(fields[7]), int(fields[9]))
    return None


def _hexadecimal(address: bytes) -> str:
    """As /proc/net writes it: words of 32 bits in this machine's order."""
    words = struct.unpack(f"!{len(address) // 4}I", address)
    return b"".join(struct.pack("=I", word) for word in words).hex().upper()
