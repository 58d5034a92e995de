"""Holds libraries that open connections by themselves to `egress.allow`: librdkafka, and the JVM of a connector.

They resolve names again after a check, and connect to whatever a server names as its other servers. So the check is
where they cannot avoid it: Linux stops each `connect` of theirs and asks this process (seccomp's user notification, see
seccomp_unotify(2)). The address that is asked about is the address that is connected to, since this process connects
the socket itself. Datagrams, such as look-ups of names, and Unix sockets pass.

The filter is a property of a thread, and threads and processes that it starts inherit it. So `run_guarded` works on
a thread of its own: a client that is created there is held to the rules, and this process' other threads are not.
Without Linux 5.5, on another processor than x86-64 and ARM64, or where a sandbox refuses the filter, `run_guarded` only
runs the work, and a line in the log says so.
"""

import array
import atexit
import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import logging
import os
import platform
import queue
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from ringfence.connectors.sdk import egress, own_listeners, worker_limits
from ringfence.connectors.sdk.log_limit import LogLimit

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Permits = Callable[[egress.Address, int], bool]


class _Machine(NamedTuple):
    """Numbers of Linux for a processor. foreign: the first number of system calls with other conventions (x32)."""

    audit_arch: int
    connect: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    seccomp: int
    foreign: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 42, 44, 46, 307, 317, 0x40000000),
    "aarch64": _Machine(0xC00000B7, 203, 206, 211, 269, 277, 0x7FFFFFFF),
}
# The same on all processors.
_IO_URING_SETUP, _PIDFD_OPEN, _PIDFD_GETFD = 425, 434, 438

_PR_SET_NO_NEW_PRIVS, _PR_SET_PTRACER = 38, 0x59616D61
_SET_MODE_FILTER: Final = 1
_SPEC_ALLOW, _NEW_LISTENER, _WAIT_KILLABLE = 1 << 2, 1 << 3, 1 << 5
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE: Final = struct.Struct("=QIIiIQ6Q")
_RESPONSE: Final = struct.Struct("=QqiI")
_CONTINUE: Final = 1
_FAST_OPEN: Final = 0x20000000
_MOST_ADDRESS: Final = 128

_LOAD, _EQUALS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ASK, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data."""

_NAME_SECONDS: Final = 600.0
_DNS: Final = 53
_MOST_HOSTS: Final = 10_000


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter)))


def _instructions(machine: _Machine) -> list[tuple[int, int, int, int]]:
    """Return the filter: ask about `connect`, refuse what would avoid it, allow the rest.

    What would avoid it: a first segment with data (TCP Fast Open), io_uring, and the conventions of other processors.
    """
    unknown, unsupported = _REFUSE | errno.ENOSYS, _REFUSE | errno.EOPNOTSUPP
    flags = {machine.sendto: 3, machine.sendmsg: 2, machine.sendmmsg: 3}
    steps = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUALS, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, unknown),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, machine.foreign),
        (_RETURN, 0, 0, unknown),
        (_EQUALS, 0, 1, machine.connect),
        (_RETURN, 0, 0, _ASK),
        (_EQUALS, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, unknown),
    ]
    for number, argument in flags.items():
        steps += [
            (_EQUALS, 0, 4, number),
            (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),  # the low half: both processors are little-endian
            (_HAS_BITS, 0, 1, _FAST_OPEN),
            (_RETURN, 0, 0, unsupported),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


_libc: Final = ctypes.CDLL(None, use_errno=True)


def _install_filter() -> int:
    """Filter this thread for ever. Returns the listener's descriptor. Raises OSError where that is not possible."""
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    steps = _instructions(machine)
    program = _Program(len(steps), (_Filter * len(steps))(*(_Filter(*each) for each in steps)))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    flags = _SPEC_ALLOW | _NEW_LISTENER
    for each in (flags | _WAIT_KILLABLE, flags):  # the first one from Linux 5.19 on: signals do not repeat a connect
        listener = int(_libc.syscall(machine.seccomp, _SET_MODE_FILTER, each, ctypes.byref(program)))
        if listener >= 0 or ctypes.get_errno() != errno.EINVAL:
            break
    descriptor = _check(listener)
    os.set_inheritable(descriptor, False)
    return descriptor


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class _Supervisor:
    """Answers for the threads and processes behind one listener, until the last of them has ended."""

    def __init__(self, listener: int, permits: _Permits, refused: Callable[[str], None]) -> None:
        self._listener = listener
        self._permits = permits
        self._refused = refused
        self._ending, self._end = os.pipe()

    def serve(self) -> None:
        """Return when nobody is left, or after `end`. Each call has a thread: a blocking `connect` and a look-up of
        names take time.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # none may interrupt a `connect`
        events = select.poll()
        events.register(self._listener, select.POLLIN)
        events.register(self._ending, select.POLLIN)
        while True:
            happened = dict(events.poll())
            if self._ending in happened or not happened[self._listener] & select.POLLIN:
                break
            notice = bytearray(_NOTICE.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # it was killed between poll and this
                    continue
                raise
            threading.Thread(target=self._answer, args=(bytes(notice),), name="guarded-connect", daemon=True).start()
        self.close()

    def end(self) -> None:
        """Have `serve` return. From then on, each `connect` fails with ENOSYS."""
        os.write(self._end, b".")

    def close(self) -> None:
        for each in (self._listener, self._ending, self._end):
            os.close(each)

    def _answer(self, notice: bytes) -> None:
        id, thread, _, _, _, _, descriptor, pointer, length, *_ = _NOTICE.unpack(notice)
        try:
            sockaddr = _read_memory(thread, pointer, min(length, _MOST_ADDRESS))
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", id))  # else the number may be another thread's
            outcome = self._connect(thread, descriptor, sockaddr)
        except OSError as error:
            outcome = -(error.errno or errno.EACCES)
        except Exception:
            log.exception("A connection could not be checked, and is refused")
            outcome = -errno.EACCES
        flags = _CONTINUE if outcome > 0 else 0
        with contextlib.suppress(OSError):  # ENOENT: it was killed
            fcntl.ioctl(self._listener, _SEND, _RESPONSE.pack(id, 0, min(outcome, 0), flags))

    def _connect(self, thread: int, descriptor: int, sockaddr: bytes) -> int:
        """Connect in the thread's place. Returns 0 or a negative error number; 1 if the thread may go on by itself."""
        where = _read_address(sockaddr)
        if where is None:
            return 1  # a Unix socket, or nothing that could be connected to
        try:
            own = _copy_descriptor(thread, descriptor)
        except PermissionError:
            # A container without CAP_SYS_PTRACE. The thread goes on by itself: hostile native code could change the
            # address in this moment, a resolver could not.
            return 1 if self._judge(*where) else -errno.EACCES
        # No socket of Python's: it would take this process' default timeout, and make the thread's non-blocking.
        try:
            if _read_type(own) != socket.SOCK_STREAM:
                return 1
            if not self._judge(*where):
                return -errno.EACCES
            result = _libc.connect(own, ctypes.create_string_buffer(sockaddr), len(sockaddr))
            return -ctypes.get_errno() if result < 0 else 0
        finally:
            os.close(own)

    def _judge(self, address: egress.Address, port: int) -> bool:
        if self._permits(address, port):
            return True
        self._refused(f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}")
        return False


def _read_memory(thread: int, pointer: int, length: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), length, pointer)


def _read_address(sockaddr: bytes) -> tuple[egress.Address, int] | None:
    """Return address and port of an IPv4 or IPv6 socket."""
    if len(sockaddr) < 16:
        return None
    (family,) = struct.unpack_from("=H", sockaddr)
    (port,) = struct.unpack_from("!H", sockaddr, 2)
    if family == socket.AF_INET:
        return ipaddress.IPv4Address(sockaddr[4:8]), port
    if family == socket.AF_INET6 and len(sockaddr) >= 24:
        address = ipaddress.IPv6Address(sockaddr[8:24])
        return address.ipv4_mapped or address, port
    return None


def _copy_descriptor(thread: int, descriptor: int) -> int:
    """Return a descriptor of this process for another process' file. Raises PermissionError where it must not."""
    process = _process_of(thread)
    if process == os.getpid():
        return os.dup(descriptor)
    handle = _check(_libc.syscall(_PIDFD_OPEN, process, 0))
    try:
        return _check(_libc.syscall(_PIDFD_GETFD, handle, descriptor, 0))
    except OSError as error:
        if error.errno == errno.ENOSYS:  # before Linux 5.6
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM)) from error
        raise
    finally:
        os.close(handle)


def _read_type(descriptor: int) -> int:
    """Return the type of a socket, such as `SOCK_STREAM`."""
    value, size = ctypes.c_int(), ctypes.c_uint32(4)
    where = ctypes.byref(value), ctypes.byref(size)
    _check(_libc.getsockopt(descriptor, socket.SOL_SOCKET, socket.SO_TYPE, *where))
    return value.value


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))


class _Rules:
    """What `egress.allow` and the platform's own listeners say about an address, whose name nobody gives here."""

    def __init__(self, resolve: egress.Resolve = egress.look_up) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._hosts: dict[str, None] = {}
        self._times: dict[str, float] = {}
        """Until when an address counts as that of an allowed name."""

    def note(self, texts: Iterable[str]) -> None:
        """Remember the names in the texts that an entry such as `*.example.com` allows."""
        hosts = dict.fromkeys(egress.Policy(worker_limits.current().egress).names_in(texts))
        with self._lock:
            self._hosts |= hosts
            while len(self._hosts) > _MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]

    def permits(self, address: egress.Address, port: int) -> bool:
        if own_listeners.is_broker(address, port):
            return True
        if own_listeners.is_own(address, port) or egress.is_forbidden(address):
            return False
        policy = egress.Policy(worker_limits.current().egress)
        if policy.allows("", address, port) or (port == _DNS and str(address) in _nameservers()):
            return True
        with self._lock:
            hosts = list(self._hosts | dict.fromkeys(policy.names_in(())))
        return any(policy.allows(host, address, port) and self._stands_for(host, address, port) for host in hosts)

    def _stands_for(self, host: str, address: egress.Address, port: int) -> bool:
        """Whether the name leads to the address, or did so lately: names of large services rotate theirs."""
        now = time.monotonic()
        with contextlib.suppress(OSError, UnicodeError):
            for each in self._resolve(host, port):
                self._times[f"{host} {egress.parse_address(each)}"] = now + _NAME_SECONDS
        return self._times.get(f"{host} {address}", 0.0) > now


def _nameservers() -> Iterator[str]:
    """Yield the servers of names, which answer over TCP where an answer is long."""
    with contextlib.suppress(OSError):
        for line in Path("/etc/resolv.conf").read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                yield words[1]


class _Guard:
    """A filtered thread, on which clients and processes are created, and the thread that answers for them."""

    def __init__(self) -> None:
        self._works: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self.rules = _Rules()
        self._lines = LogLimit()
        ready: Future[int] = Future()
        threading.Thread(target=self._create, args=(ready,), name="guarded-clients", daemon=True).start()
        self._supervisor = _Supervisor(ready.result(), self.rules.permits, self._report)
        self._serving = threading.Thread(target=self._supervisor.serve, name="guarded-connects", daemon=True)
        self._serving.start()

    def run(self, work: Callable[[], _T]) -> _T:
        result: Future[_T] = Future()
        self._works.put((work, result))
        return result.result()

    def end(self) -> None:
        """Let no client wait for an answer that this process, which ends, cannot give any more."""
        self._supervisor.end()
        self._serving.join(1.0)

    def forget(self) -> None:
        """Close what a forked process has of it: the parent's clients must not wait for an answer from there."""
        self._supervisor.close()

    def _create(self, ready: "Future[int]") -> None:
        try:
            ready.set_result(_install_filter())
        except OSError as error:
            ready.set_exception(error)
            return
        while True:
            work, result = self._works.get()
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised where the work was given
                result.set_exception(error)

    def _report(self, where: str) -> None:
        self._lines.warning(log, _REFUSAL, where, subject=where)


_REFUSAL: Final = (
    f"A client was kept from connecting to %s: {egress.EGRESS_ALLOW} does not contain it, or it is a listener of the "
    "platform. Where a server names such an address as one of its own, add it there"
)


class _Process:
    """This process' guard, which the first use creates."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._tried = False
        self._guard: _Guard | None = None

    def guard(self) -> _Guard | None:
        """Return None where the system refuses the filter."""
        with self._lock:
            if not self._tried:
                self._tried = True
                try:
                    self._guard = _Guard()
                    atexit.register(self._guard.end)
                except OSError as error:
                    if error.errno != errno.EBUSY:  # that is a process which is held to the rules already
                        log.warning(_UNGUARDED, error.strerror)
            return self._guard

    def forget(self) -> None:
        """After a fork: none of the threads is there, and one of them may have held the lock."""
        if self._guard is not None:
            atexit.unregister(self._guard.end)
            self._guard.forget()
        self._reset()


_UNGUARDED: Final = (
    "Connections of Kafka's clients and of Java connectors are checked beforehand, but cannot be held to "
    f"{egress.EGRESS_ALLOW}: the system refuses a filter of system calls (%s). It takes Linux 5.5"
)
_process: Final = _Process()
os.register_at_fork(after_in_child=_process.forget)


def run_guarded(work: Callable[[], _T], names: Iterable[str] = ()) -> _T:
    """Return the result of `work`, or raise its error. The threads and processes that it starts connect to addresses of
    `egress.allow` only, and to no listener of the platform; other attempts fail with EACCES.

    names: texts with the names of hosts, such as bootstrap.servers, for entries such as `*.example.com`. Entries that
    are names hold for the addresses which these have at the time. `work` runs after others, so it must not wait long.
    """
    guard = _process.guard()
    if guard is None:
        return work()
    guard.rules.note(names)
    return guard.run(work)


def allows_unlisted_names() -> bool:
    """Return whether `egress.allow` has an entry such as `*.example.com`, so that `names` matter."""
    return egress.Policy(worker_limits.current().egress).has_wildcards


def note_names(texts: Iterable[str]) -> None:
    """Add texts with the names of hosts to those of `run_guarded`, which has been called."""
    if guard := _process.guard():
        guard.rules.note(texts)


def exec_guarded(command: Sequence[str], environment: dict[str, str], names: Path) -> NoReturn:
    """Replace this process by the command, held to the rules of `run_guarded` for as long as it runs. A child of it
    answers. Only for a process with one thread. Raises OSError if there is no such command.

    names: a file with texts for `run_guarded`, one a line, which may grow; it may be missing.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _serve_parent(ours, theirs, parent, names)
    ours.close()
    try:
        _libc.prctl(_PR_SET_PTRACER, child, 0, 0, 0)  # where only parents may look into a process (Yama)
        listener = _install_filter()
    except OSError as error:
        theirs.sendall(b"-")
        log.warning(_UNGUARDED, error.strerror)
    else:
        theirs.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)
    theirs.recv(1)  # the child has the listener, or has ended
    os.execve(command[0], list(command), environment)  # noqa: S606 - a JVM, without a shell


def _serve_parent(ours: socket.socket, theirs: socket.socket, parent: int, names: Path) -> NoReturn:
    theirs.close()
    os.setsid()
    rules, lines = _Rules(), LogLimit()

    def permits(address: egress.Address, port: int) -> bool:
        with contextlib.suppress(OSError):
            rules.note(names.read_text(encoding="utf-8", errors="replace").splitlines())
        return rules.permits(address, port)

    try:
        data, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        ours.close()
        if data == b"+":
            supervisor = _Supervisor(descriptors[0], permits, lambda where: lines.warning(log, _REFUSAL, where))
            supervisor.serve()
    finally:
        os._exit(0)
