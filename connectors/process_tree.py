"""Reads Linux's /proc: a process, which processes hold a socket, and whether one belongs to a tree of processes.

A tree has a root, and each process that it started belongs to it, whatever that process did since: the guards of
`ringfence up` adopt orphans (`PR_SET_CHILD_SUBREAPER`), so two forks, `setsid` or `nohup` lead nowhere else. Where a
guard was killed, its orphans leave the tree. They still carry the mark that all of them inherited in their environment.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MARK: Final = "RINGFENCE_PLATFORM_PROCESS"
"""The environment variable that the processes of `ringfence up` inherit."""
_MARKED: Final = f"{MARK}=".encode()
_TRIES: Final = 5


class CannotTell(Exception):
    """A process has ended, or may not be looked at."""


@dataclass(frozen=True, slots=True)
class Process:
    """state: a letter as in proc_pid_stat(5); started: in clock ticks after the boot, so no other process has had this
    number since.
    """

    pid: int
    state: str
    parent: int
    started: int


def read_process(pid: int) -> Process:
    """Raise `CannotTell` if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return Process(pid, fields[0].decode(), int(fields[1]), int(fields[19]))
    except (OSError, ValueError, IndexError) as error:
        raise CannotTell(f"Process {pid} has ended") from error


def find_holders(inode: int, uid: int) -> list[int]:
    """Return the processes of a user that have the socket open, as far as they may be looked at."""
    return [pid for pid, inodes in _open_sockets(uid, frozenset({inode})) if inodes]


def any_holder_in(inodes: frozenset[int], uid: int, root: int) -> bool:
    """Return whether a process of the tree has one of the sockets open. Those that end while it looks have none."""
    for pid, shared in _open_sockets(uid, inodes):
        if shared:
            with contextlib.suppress(CannotTell):
                if is_in_tree(pid, root):
                    return True
    return False


def is_in_tree(pid: int, root: int) -> bool:
    """Return whether the process is the root, descends from it, or carries the mark, itself or by an ancestor. Raises
    `CannotTell`.
    """
    chain = _ancestry(pid)
    return root in chain or any(_is_marked(each, strict=each == pid) for each in chain)


def _open_sockets(uid: int, inodes: frozenset[int]) -> Iterator[tuple[int, bool]]:
    links = {f"socket:[{inode}]" for inode in inodes}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            folder = f"/proc/{name}"
            if os.stat(folder).st_uid == uid:
                yield int(name), _has_open(f"{folder}/fd", links)


def _has_open(folder: str, links: set[str]) -> bool:
    """Thousands of links are read for each new connection of a client: by their number in the open folder, since the
    kernel looks up each part of a path.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in os.listdir(at):
            try:
                if os.readlink(number, dir_fd=at) in links:
                    return True
            except OSError:  # it was closed since
                continue
        return False
    finally:
        os.close(at)


def _ancestry(pid: int) -> list[int]:
    """Return the process and its ancestors, as they were at one moment."""
    chain = [read_process(pid)]
    tries = 0
    while (parent := chain[-1].parent) > 0:
        with contextlib.suppress(CannotTell):
            above = read_process(parent)
            # If the parent has ended, its number may be another process's by now.
            if above.started <= chain[-1].started and read_process(chain[-1].pid).parent == parent:
                chain.append(above)
                continue
        tries += 1
        if tries > _TRIES:
            raise CannotTell(f"The parents of process {pid} change")
        chain[-1] = read_process(chain[-1].pid)
    return [each.pid for each in chain]


def _is_marked(pid: int, *, strict: bool) -> bool:
    """strict: raise `CannotTell` if it may not be looked at; an ancestor may be another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(each.startswith(_MARKED) for each in file.read().split(b"\0"))
    except OSError as error:
        if strict:
            raise CannotTell(f"Process {pid} has ended, or may not be looked at") from error
        return False
