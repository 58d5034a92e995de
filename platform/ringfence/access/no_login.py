"""Requests that need no login: those from this machine, under `ringfence up` only.

`up` passes this to its web process on the command line (`ringfence web --no-login …`), which calls `open_door`. No
environment variable can, so that neither a stray one nor another server (`uvicorn ringfence.asgi:application`) lets
anybody in.

The platform's own processes (web, workers, plugins, tasks, Spark) have the same user, and send requests where other
people's configurations say. So they need a login as strangers do, and so does whoever cannot be told from them. Nobody
is let in any more once there is an account or a token: then there are people with fewer rights than this door gives.
"""

import contextlib
import ipaddress
import logging
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest

from ringfence.access.loopback_peer import CONNECTION, Peer, find_peer
from ringfence.connectors.process_tree import MARK, CannotTell, find_holders, is_in_tree
from ringfence.environment import NoLogin, host_of
from ringfence.plain_queries import select

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
    if not select(User, "1", "id IS NOT NULL LIMIT 1"):  # each token has an account
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
