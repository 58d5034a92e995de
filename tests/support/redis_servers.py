"""Valkey with a replica that takes over: behind Sentinels, and in cluster mode."""

import contextlib
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis

from ringfence.local.ports import accepts, free_ports
from ringfence.local.valkey import find_server
from tests.support.waiting import eventually

NEEDS = "Redis"

PRIMARY: Final = "queues"
PASSWORD: Final = "of-the-servers"
SENTINEL_PASSWORD: Final = "of-the-sentinels"


class Servers:
    """Valkey's processes, named by their ports."""

    def __init__(self, root: Path, count: int) -> None:
        self._root = root
        self.ports = free_ports(count)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def pid(self, port: int) -> int:
        return self._running[port].pid

    def kill(self, port: int) -> None:
        self._running[port].kill()
        self._running.pop(port).wait()

    def close(self) -> None:
        for port in list(self._running):
            self.kill(port)

    def restart(self, port: int) -> None:
        """Start again one that was killed: as a replica, if another one is the primary now."""
        self._run(port, self._root / str(port) / "valkey.conf")

    def await_replica(self, port: int) -> None:
        client = self._client(port, PASSWORD)

        def follows() -> bool:
            with contextlib.suppress(redis.RedisError):  # it closes its connections when it becomes a replica
                return bool(client.info("replication").get("master_link_status") == "up")
            return False

        eventually(follows, 30, "the replica follows")

    def _launch(self, port: int, lines: str, *options: str) -> None:
        folder = self._root / str(port)
        folder.mkdir()
        file = folder / "valkey.conf"
        file.write_text(f"port {port}\ndir {folder}\n{lines}")
        self._run(port, file, *options)

    def _run(self, port: int, file: Path, *options: str) -> None:
        with (file.parent / "log").open("ab") as log:
            command = [str(find_server()), str(file), *options]
            self._running[port] = subprocess.Popen(command, stdout=log, stderr=log, cwd=file.parent)
        eventually(lambda: accepts("127.0.0.1", port), 20, f"{options} listens")

    def _client(self, port: int, password: str) -> Any:
        return redis.Redis.from_url(f"redis://:{password}@127.0.0.1:{port}/0", socket_timeout=5)


class Sentinels(Servers):
    """A primary, its replica, and two Sentinels that agree by one vote."""

    def __init__(self, root: Path, down_ms: int = 1_000) -> None:
        """down_ms: after so long without an answer, a server counts as gone."""
        super().__init__(root, 4)
        self._down_ms = down_ms

    @property
    def url(self) -> str:
        one, other = self.ports[2:]
        return f"sentinel://:{PASSWORD}@127.0.0.1:{one};sentinel://127.0.0.1:{other}/0"

    @property
    def settings(self) -> dict[str, str]:
        """The variables of web processes and workers."""
        return {
            "RINGFENCE_REDIS_URL": self.url,
            "RINGFENCE_REDIS_PRIMARY": PRIMARY,
            "RINGFENCE_REDIS_SENTINEL_PASSWORD": SENTINEL_PASSWORD,
        }

    def start(self) -> None:
        primary, replica, *sentinels = self.ports
        shared = f'bind 127.0.0.1\nsave ""\nrequirepass {PASSWORD}\nmasterauth {PASSWORD}\nrepl-diskless-sync-delay 0\n'
        self._launch(primary, shared)
        self._launch(replica, f"{shared}replicaof 127.0.0.1 {primary}\n")
        self.await_replica(replica)  # or Sentinels learn of it ten seconds later
        for port in sentinels:
            lines = (
                f"bind 127.0.0.1\nrequirepass {SENTINEL_PASSWORD}\nsentinel sentinel-pass {SENTINEL_PASSWORD}\n"
                f"sentinel monitor {PRIMARY} 127.0.0.1 {primary} 1\nsentinel auth-pass {PRIMARY} {PASSWORD}\n"
                f"sentinel down-after-milliseconds {PRIMARY} {self._down_ms}\n"
                f"sentinel failover-timeout {PRIMARY} 5000\n"
            )
            self._launch(port, lines, "--sentinel")
        for port in sentinels:
            client = self._client(port, SENTINEL_PASSWORD)
            eventually(partial(client.execute_command, "SENTINEL", "REPLICAS", PRIMARY), 30, "the replica is known")

    def primary(self) -> int:
        """The port of the one that takes writes now, as the first Sentinel says."""
        return int(self._client(self.ports[2], SENTINEL_PASSWORD).sentinel_get_master_addr_by_name(PRIMARY)[1])


class RedisCluster(Servers):
    """Three primaries, of which one has all slots, and its replica."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 8)
        self._bus = dict(zip(self.ports[:4], self.ports[4:], strict=True))

    @property
    def url(self) -> str:
        """Of two that never have our keys, so that they have to be asked where these are."""
        one, other = self.ports[1:3]
        return f"cluster://:{PASSWORD}@127.0.0.1:{one};cluster://127.0.0.1:{other}/0"

    def start(self) -> None:
        primary, second, third, replica = self._bus
        for port, bus in self._bus.items():
            lines = (
                f'bind 127.0.0.1\nsave ""\nrequirepass {PASSWORD}\nmasterauth {PASSWORD}\nrepl-diskless-sync-delay 0\n'
                # By default the port and 10,000, which may be none.
                f"cluster-enabled yes\ncluster-port {bus}\ncluster-node-timeout 1000\n"
                "cluster-replica-validity-factor 0\n"
            )
            self._launch(port, lines)
        self._command(primary, "CLUSTER ADDSLOTSRANGE", 0, 1, 4, 16383)
        self._command(second, "CLUSTER ADDSLOTS", 2)  # who has no slot has no vote
        self._command(third, "CLUSTER ADDSLOTS", 3)
        for epoch, port in enumerate(self._bus, 1):
            self._command(port, "CLUSTER SET-CONFIG-EPOCH", epoch)
        for port in (second, third, replica):
            self._command(port, "CLUSTER MEET", "127.0.0.1", primary, self._bus[primary])
        name = self._command(primary, "CLUSTER MYID")

        def replicates() -> bool:
            with contextlib.suppress(redis.ResponseError):  # it does not know the primary yet
                return bool(self._command(replica, "CLUSTER REPLICATE", name))
            return False

        eventually(replicates, 30, "the replica knows its primary", pause=0.1)
        self.await_replica(replica)
        for port in self._bus:
            eventually(partial(self._knows_all, port), 30, f"{port} knows all", pause=0.1)

    def primary(self) -> int:
        """The port of the one that has our keys now, as the second server says."""
        slots = self._command(self.ports[1], "CLUSTER SLOTS")
        return next(int(node[1]) for first, last, node, *_ in slots if first <= 16383 <= last)

    def hand_over(self) -> None:
        """Have the replica take over from its primary, in order."""
        self._command(self.ports[3], "CLUSTER FAILOVER")

    def _knows_all(self, port: int) -> bool:
        slots = self._command(port, "CLUSTER SLOTS")
        has_replica = any(len(nodes) == 2 for _, _, *nodes in slots)
        return has_replica and self._command(port, "CLUSTER INFO")["cluster_state"] == "ok"

    def _command(self, port: int, *words: object) -> Any:
        return self._client(port, PASSWORD).execute_command(*words)
