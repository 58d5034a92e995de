"""The services of docker-compose.yml in containers: their own commands, variables, volumes, networks and health checks.

Each container has a network namespace with an address in each of its networks, and knows the names of those beside it,
as with an engine. It shares the processes and the memory of this machine.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from ringfence.local.guarded_process import GuardedProcess
from tests.support.buildah import Buildah
from tests.support.compose import OURS, ROOT, Service, filled, load, networks, services
from tests.support.waiting import eventually

NEEDS = "containers"

_SHARED: Final = "switch"
_AT_ONCE_SECONDS: Final = 120


class Networks:
    """One bridge for each network of the file. They are gone when the processes that hold them have ended."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._holders: dict[str, GuardedProcess] = {}
        self._names = sorted(load()["networks"])
        self.addresses: dict[str, dict[str, str]] = {name: {} for name in self._names}
        self._hold(_SHARED)
        for number, _ in enumerate(self._names):
            self._ip(_SHARED, "link", "add", f"n{number}", "type", "bridge")
            self._ip(_SHARED, "link", "set", f"n{number}", "up")

    def join(self, container: str, names: list[str]) -> None:
        """An address for the container in each of these networks."""
        self._hold(container)
        self._ip(container, "link", "set", "lo", "up")
        for name in names:
            network = self._names.index(name)
            number = len(self.addresses[name]) + 2
            port, pid = f"n{network}p{number}", str(self._holders[container].pid)
            self._ip(_SHARED, "link", "add", port, "type", "veth", "peer", "name", name, "netns", pid)
            self._ip(_SHARED, "link", "set", port, "master", f"n{network}", "up")
            self.addresses[name][container] = f"10.219.{network}.{number}"
            self._ip(container, "address", "add", f"{self.addresses[name][container]}/24", "dev", name)
            self._ip(container, "link", "set", name, "up")

    def inside(self, container: str) -> list[str]:
        """What a command begins with to run there."""
        return ["nsenter", f"--net=/proc/{self._holders[container].pid}/ns/net"]

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()

    def _hold(self, container: str) -> None:
        holder = GuardedProcess.start(
            container, ["unshare", "--net", "sleep", "infinity"], log=self._root / "networks.log"
        )
        self._holders[container] = holder
        ours = os.readlink("/proc/self/ns/net")
        eventually(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != ours, 30, "a network of its own")

    def _ip(self, container: str, *words: str) -> None:
        subprocess.run([*self.inside(container), "ip", *words], check=True)


def _escaped(words: list[str]) -> list[str]:
    """As compose reads them: `$$` is a dollar for the shell in the container."""
    return [word.replace("$$", "$") for word in words]


class Compose:
    """Containers by the names of their services; of one with several, `spark-worker-2` is the second."""

    def __init__(
        self,
        root: Path,
        buildah: Buildah,
        images: Mapping[str, str],
        extra: Mapping[str, list[str]],
        commands: Mapping[str, list[str]],
        secrets: Mapping[str, str],
    ) -> None:
        """`images`: what stands for each name in the file. `extra` volumes, and `commands` of those whose image brings
        its own: by container. `secrets`: the variables of .env."""
        self._root, self._buildah, self._images = root, buildah, images
        self._extra, self._commands, self._secrets = extra, commands, secrets
        self._containers: dict[str, str] = {}
        self._running: dict[str, GuardedProcess] = {}
        self.services: dict[str, Service] = {}
        for service, what in services().items():
            for number in range(int(what.get("deploy", {}).get("replicas", 1))):
                self.services[service if number == 0 else f"{service}-{number + 1}"] = what
        self.networks = Networks(root)
        for name, what in self.services.items():
            if "networks" in what:
                self.networks.join(name, [*networks(what)])

    def up(self, name: str) -> None:
        """Start it. A container that was stopped starts again with what it had on its disk."""
        service = self.services[name]
        if name not in self._containers:
            self._containers[name] = self._buildah.run(
                "from", "--pull-never", "--network=none", self._images[service["image"]]
            )
        words = self._commands.get(name) or self._words(service)
        self._running[name] = GuardedProcess.start(name, self._command(name, words), log=self.log(name))

    def log(self, name: str) -> Path:
        return self._root / f"{name}.log"

    def ended(self, name: str) -> int | None:
        """The exit code of one that has ended."""
        return self._running[name].poll()

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """As `docker compose exec`."""
        told = self._command(name, list(words))
        return subprocess.run(told, capture_output=True, text=True, timeout=_AT_ONCE_SECONDS)

    def healthy(self, name: str) -> bool:
        """What its health check says."""
        if self.ended(name) is not None:
            raise LookupError(f"{name} has ended: {self.log(name).read_text()[-3000:]}")
        return self.run(name, *_escaped(self.services[name]["healthcheck"]["test"][1:])).returncode == 0

    def stop(self, name: str, grace: float) -> bool:
        """As `docker stop`: SIGTERM to the command. Whether it ended by itself, within `grace` seconds."""
        self.process(name).send_signal(signal.SIGTERM)
        return self._running[name].wait(grace)

    def process(self, name: str) -> psutil.Process:
        """The container's command: the first below buildah's own."""
        found = psutil.Process(self._running[name].pid)
        while found.cmdline()[0].startswith("buildah"):
            (found,) = [child for child in found.children() if child.status() != psutil.STATUS_ZOMBIE]
        return found

    def close(self) -> None:
        for running in self._running.values():
            running.kill()
        for container in self._containers.values():
            self._buildah.run("rm", container)
        self.networks.close()

    def _words(self, service: Service) -> list[str]:
        """As an engine puts entrypoint and command together."""
        config = self._buildah.config(self._images[service["image"]])
        entrypoint = service.get("entrypoint", config.get("Entrypoint", []))
        fallback = [] if "entrypoint" in service else config.get("Cmd", [])
        return _escaped([*entrypoint, *service.get("command", fallback)])

    def _command(self, name: str, words: list[str]) -> list[str]:
        service = self.services[name]
        volumes = [f"{self._hosts(name)}:/etc/hosts:ro", *self._volumes(name), *self._extra.get(name, [])]
        given = [f"--env={key}={filled(value, self._secrets)}" for key, value in service.get("environment", {}).items()]
        options = [*(f"--volume={volume}" for volume in volumes), *given, "--hostname", service.get("hostname", name)]
        run = self._buildah.command("run", "--isolation", "chroot", *options, self._containers[name], "--", *words)
        return [*self.networks.inside(self._place(name)), *run]

    def _place(self, name: str) -> str:
        """Whose network namespace it is in: its own, or that of the service that `network_mode` names."""
        mode: str = self.services[name].get("network_mode", f"service:{name}")
        return mode.removeprefix("service:")

    def _hosts(self, name: str) -> Path:
        """Who is in one of its networks, by their names."""
        path = self._root / f"{name}.hosts"
        if not path.exists():  # else somebody reads it
            lines = ["127.0.0.1 localhost"]
            for network in self.services[self._place(name)]["networks"]:
                for other, address in self.networks.addresses[network].items():
                    further = networks(self.services[other])[network]
                    lines.append(" ".join([address, other, *further]))
            path.write_text("\n".join(lines) + "\n")
        return path

    def _volumes(self, name: str) -> list[str]:
        """Files of the checkout as they are; a new volume belongs to whom the image's folder does, as with engines."""
        found = []
        for volume in self.services[name].get("volumes", []):
            where, _, rest = volume.partition(":")
            if where.startswith("."):
                found.append(f"{ROOT / where}:{rest}")
            elif rest and self.services[name]["image"] == OURS:
                folder = self._root / where
                if not folder.exists():
                    folder.mkdir()
                    image = Path(self._buildah.run("mount", self._containers[name])) / rest.lstrip("/")
                    owner = image.stat()
                    folder.chmod(owner.st_mode)
                    shutil.chown(folder, owner.st_uid, owner.st_gid)
                    self._buildah.run("umount", self._containers[name])
                found.append(f"{folder}:{rest}")
        return found
