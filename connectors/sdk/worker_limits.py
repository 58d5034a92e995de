"""What a worker does not allow its connectors: files outside its roots, its own topics as a source, too many tasks.

The worker passes the limits to each process that runs plugin code: in an environment variable of plugin processes, in
the specification of a task. A process without limits reads no file that a configuration names. The limits apply to what
configurations name; a plugin's own code can read whatever the operating system allows the worker's user.
"""

import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ringfence.connectors.sdk import own_listeners
from ringfence.connectors.sdk.egress import DEFAULT, EGRESS_ALLOW

ENVIRONMENT: Final = "RINGFENCE_CONNECTOR_LIMITS"
"""The variable that passes `as_settings` to plugin processes, as JSON."""
LISTEN_HOST: Final = "listen.host"
LISTEN_AUTO: Final = "auto"
LISTEN_DEFAULT: Final = "127.0.0.1"
FILE_ROOTS: Final = "file.roots"
WRITE_ROOTS: Final = "file.write.roots"
CLOSED_PATHS: Final = "ringfence.closed.paths"
CLUSTER_ID: Final = "ringfence.cluster.id"
HOME_SERVERS: Final = "ringfence.home.servers"
HOME_LOGIN: Final = "ringfence.home.login"
OWN_LISTENERS: Final = "ringfence.own.listeners"
INTERNAL_TOPICS: Final = "ringfence.internal.topics"
TASKS_MAX_LIMIT: Final = "tasks.max.limit"
TASKS_MAX_LIMIT_DEFAULT: Final = 1000
"""More than anybody's connector has, and few enough that one connector cannot occupy the leader for minutes."""
MAX_TASKS: Final = 100_000
"""The largest value of that setting. A record that claims more tasks cannot be read."""
_BETWEEN: Final = ","


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """roots: folders or files that configurations may name. closed: never allowed, even below the roots.

    cluster_id: that of the worker's Kafka cluster, "" if unknown. topics: the workers' own topics there. egress: the
    allowed connections (`connectors.egress`). home: the addresses of the worker's Kafka, which are always allowed.
    write_roots: the roots in which connectors may delete and move files. listen_host: where tasks that receive requests
    listen. home_login: a properties file with a login at home, for connectors that read topics there and bring none.
    own_listeners: addresses of the platform, which no connector reaches (`connectors.own_listeners`). offsets:
    connectors' own offsets topics, as last set by `set_offsets_topics`. tasks: the most that a connector may have.
    """

    roots: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    cluster_id: str = ""
    topics: tuple[str, ...] = ()
    egress: str = DEFAULT
    home: str = ""
    write_roots: tuple[str, ...] = ()
    listen_host: str = LISTEN_DEFAULT
    home_login: str = ""
    own_listeners: tuple[str, ...] = ()
    offsets: frozenset[str] = field(default_factory=frozenset)
    tasks: int = TASKS_MAX_LIMIT_DEFAULT

    def as_settings(self) -> dict[str, str]:
        """Do the inverse of `of_settings`, without the offsets topics, which change while processes run."""
        lists = {
            FILE_ROOTS: self.roots,
            WRITE_ROOTS: self.write_roots,
            CLOSED_PATHS: self.closed,
            INTERNAL_TOPICS: self.topics,
            OWN_LISTENERS: self.own_listeners,
        }
        return {
            **{name: _BETWEEN.join(each) for name, each in lists.items()},
            CLUSTER_ID: self.cluster_id,
            EGRESS_ALLOW: self.egress,
            HOME_SERVERS: self.home,
            HOME_LOGIN: self.home_login,
            LISTEN_HOST: self.listen_host,
            TASKS_MAX_LIMIT: str(self.tasks),
        }

    def listen_addresses(self) -> tuple[str, str]:
        """Return where a task listens, and where web processes reach it. `auto`: at this machine's address towards
        Kafka.
        """
        if self.listen_host != LISTEN_AUTO:
            return self.listen_host, self.listen_host
        host, _, port = names(self.home)[0].rpartition(":") if names(self.home) else ("", "", "")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((host or "127.0.0.1", int(port or 9092)))  # sends nothing
            return "0.0.0.0", str(way.getsockname()[0])  # noqa: S104 - the user chose `auto`

    def internal(self, topic: str) -> bool:
        """Return whether the worker cluster's topic is Kafka's, the workers' or an offsets topic of a connector."""
        return topic.startswith("__") or topic in self.topics or topic in self.offsets


def names(text: str) -> tuple[str, ...]:
    """Return the entries of a list setting."""
    return tuple(entry for each in text.split(_BETWEEN) if (entry := each.strip()))


def of_settings(settings: Mapping[str, str]) -> WorkerLimits:
    roots, writable, closed, topics, own = (
        names(settings.get(name, ""))
        for name in (FILE_ROOTS, WRITE_ROOTS, CLOSED_PATHS, INTERNAL_TOPICS, OWN_LISTENERS)
    )
    egress, home = settings.get(EGRESS_ALLOW, DEFAULT), settings.get(HOME_SERVERS, "")
    listen = settings.get(LISTEN_HOST, "").strip() or LISTEN_DEFAULT
    return WorkerLimits(
        roots,
        closed,
        settings.get(CLUSTER_ID, ""),
        topics,
        egress,
        home,
        writable,
        listen,
        home_login=settings.get(HOME_LOGIN, ""),
        own_listeners=own,
        tasks=task_limit(settings),
    )


def task_limit(settings: Mapping[str, str]) -> int:
    """Return the largest `tasks.max` that a connector may have. Raises ValueError, whose message names the setting."""
    text = settings.get(TASKS_MAX_LIMIT, str(TASKS_MAX_LIMIT_DEFAULT)).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_TASKS):
        raise ValueError(f"{TASKS_MAX_LIMIT}={text}: an integer from 1 to {MAX_TASKS:,} is expected")
    return int(text)


def of_environment(environment: Mapping[str, str]) -> WorkerLimits:
    return of_settings(json.loads(environment.get(ENVIRONMENT, "{}")))


def wrong_roots(settings: Mapping[str, str]) -> str:
    """Return the error in the worker's settings; "" if there is none."""
    for setting in (FILE_ROOTS, WRITE_ROOTS):
        for root in names(settings.get(setting, "")):
            if not os.path.isabs(root):
                return f"{setting} names {root}, which is not an absolute path"
    return ""


_current: list[WorkerLimits] = []


def declare(limits: WorkerLimits) -> None:
    """Set the limits of this process."""
    _current[:] = [limits]
    own_listeners.declare(limits.own_listeners, names(limits.home))


def current() -> WorkerLimits:
    """Return the declared limits, or else those of the environment."""
    if not _current:
        declare(of_environment(os.environ))
    return _current[0]


def set_offsets_topics(topics: Iterable[str]) -> None:
    """Set connectors' current offsets topics, for this process. A change makes `current` return another object."""
    limits = current()
    names = frozenset(topics)
    if names != limits.offsets:
        declare(replace(limits, offsets=names))
