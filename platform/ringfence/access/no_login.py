"""Requests that need no login: those from this machine, under `ringfence up` only.

`up` passes this to its web process on the command line (`ringfence web --no-login …`), which calls `open_door`. No
environment variable can, so that neither a stray one nor another server (`uvicorn ringfence.asgi:application`) lets
anybody in.

The platform's own processes (web, workers, plugins, tasks, Spark) have the same user, and send requests where other
people's configurations say. So they need a login as strangers do, and so does whoever cannot be told from them. Nobody
is let in any more once there is an account or a token: then there are people with fewer rights than this door gives.

Who sends a request is found by the socket at the other end (`loopback_peer`). Both ends of a loopback connection are
sockets of this kernel, and each has the user id of its creator and an inode. The kernel is asked by netlink's
`sock_diag`, whose cost does not depend on the number of sockets; otherwise /proc/net is read. The result is None if
neither exists, as on macOS, or if the process has closed its socket: then the table has no inode.
"""

import contextlib
import ipaddress
import logging
import os
import socket
import struct
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest

from ringfence.connectors.process_tree import MARK, CannotTell, find_holders, is_in_tree
from ringfence.environment import NoLogin, host_of

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


log = logging.getLogger(__name__)

ENDED: Final = (
    "A login is required from now on, also from this machine's own user: there is an account or a token. It stays so "
    "until `ringfence up` is started again without any"
)
_VERDICT: Final = "needs no login"
_FORWARDED = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_ORIGINAL_HOST", "HTTP_TRUE_CLIENT_IP")
_FORWARDED_PREFIX = "HTTP_X_FORWARDED"


def open_door(who: NoLogin, ended: Path | None) -> None:
    """Let users of this machine in without a login. ended: a file that is there once that is over."""
    settings.NO_LOGIN = who
    settings.PLATFORM_PID = _find_platform()
    settings.NO_LOGIN_ENDED = ended


def _find_platform() -> int:
    """Return the process whose descendants need a login: `up`, or else this one."""
    root = os.environ.get(MARK, "")
    return int(root) if root.isdecimal() else os.getpid()


def needs_no_login(request: HttpRequest) -> bool:
    """Return whether this request needs no login.

    It must come from loopback, to a loopback name, without a sign of a proxy, from a process that is not the
    platform's; with `SAME_USER`, the other end of its connection must also be a socket of our own user.
    """
    if not settings.NO_LOGIN:
        return False
    address = str(request.META.get("REMOTE_ADDR") or "")
    if not _is_loopback(address) or not _is_loopback_name(request.META.get("HTTP_HOST", "")) or _is_forwarded(request):
        return False
    platform: int | None = settings.PLATFORM_PID
    if platform is None:  # in tests without a server, where no connection can be judged
        return settings.NO_LOGIN == NoLogin.MACHINE
    return not is_over() and _judge_connection(request, platform)


def is_over() -> bool:
    """Return whether there is an account or a token, or there was one since `up` started. Tells it once, in the log,
    and in the file that `up` looks for. Raises DatabaseError: without the database, nobody can tell.
    """
    ended: Path | None = settings.NO_LOGIN_ENDED
    if not settings.NO_LOGIN or (ended is not None and ended.exists()):
        settings.NO_LOGIN = ""
        return True
    if not User.objects.exists():  # each token has an account
        return False
    settings.NO_LOGIN = ""
    log.warning("%s", ENDED)
    if ended is not None:
        with contextlib.suppress(OSError):
            ended.touch(mode=0o600)
    return True


def _judge_connection(request: HttpRequest, platform: int) -> bool:
    """Judge the process at the other end, once for each connection: it may hand its socket to another process, or end,
    but not become another one."""
    scope = getattr(request, "scope", {})
    memory: MutableMapping[str, Any] = scope.get(CONNECTION, {})
    if _VERDICT not in memory:
        peer = _find_peer_of(scope)
        memory[_VERDICT] = peer is not None and is_welcome(peer, settings.NO_LOGIN, platform)
    return bool(memory[_VERDICT])


def _find_peer_of(scope: Mapping[str, Any]) -> Peer | None:
    peer, server = scope.get("client"), scope.get("server")
    if not peer or not server or server[1] is None:
        return None
    return find_peer((str(peer[0]), int(peer[1])), (str(server[0]), int(server[1])))


def is_welcome(peer: Peer, who: str, platform: int) -> bool:
    """Return whether the processes that hold the socket are the user's, and none is the platform's. Where that cannot
    be told, it is not.
    """
    is_ours = peer.uid == os.getuid()
    if not is_ours and who != NoLogin.MACHINE:
        return False
    holders = find_holders(peer.inode, peer.uid)
    try:
        in_tree = any(is_in_tree(pid, platform) for pid in holders)
    except CannotTell:
        return False
    # Only root can look at other users' processes, and `--no-login` admits them. The platform has one user.
    return not in_tree and (bool(holders) or not is_ours)


def _is_forwarded(request: HttpRequest) -> bool:
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in request.META)


def _is_loopback_name(host: str) -> bool:
    """Check a Host header, with or without a port."""
    name = host if host.endswith("]") else host_of(host)
    return name.lower() == "localhost" or _is_loopback(name.strip("[]"))


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)
