"""Our image, built from the Dockerfile as it is, by buildah: a builder that needs neither a daemon nor a registry."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from ringfence.local.cache import cache_root
from tests.support.compose import OURS, ROOT

NEEDS = "Buildah"

BASES: Final = ROOT / "tests" / "deployment" / "bases"
SERVERS: Final = "localhost/ringfence-test-servers"
HOW_TO_INSTALL: Final = "apt-get install buildah debootstrap iproute2"
_PROGRAMS: Final = ("buildah", "debootstrap", "ip", "nsenter", "unshare")
_SUITE: Final = ("bookworm", "http://deb.debian.org/debian")
_SECONDS: Final = 1200

# As this machine reaches PyPI: mounted while it is built, so no part of the image.
_OF_THIS_MACHINE: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")


def obstacle() -> str | None:
    """Why no containers can be had here, with the remedy; None where they can."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"no {', '.join(missing)}: {HOW_TO_INSTALL}"
    if os.geteuid() != 0:
        return "not root, who alone may make networks and containers without an engine: run it in a machine of its own"
    told = subprocess.run(["unshare", "--net", "ip", "link", "add", "x", "type", "bridge"], capture_output=True)
    return f"this machine makes no networks: {told.stderr.decode().strip()}" if told.returncode else None


class Buildah:
    """Images and containers in a store of our own, kept between runs: with its layers a build takes seconds."""

    def __init__(self, store: Path | None = None) -> None:
        self._store = store or cache_root() / "buildah"
        self._store.mkdir(parents=True, exist_ok=True)

    def command(self, *arguments: str) -> list[str]:
        where = ["--root", str(self._store / "storage"), "--runroot", str(self._store / "run")]
        return ["buildah", *where, "--storage-driver", "overlay", *arguments]

    def run(self, *arguments: str) -> str:
        """What it prints. Raises AssertionError with the end of its complaint."""
        told = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=_SECONDS)
        assert told.returncode == 0, f"buildah {arguments[0]}: {told.stdout[-3000:]}{told.stderr[-3000:]}"
        return told.stdout.strip()

    def config(self, image: str) -> dict[str, Any]:
        """What the image says of itself: Entrypoint, Cmd, User, Env and the like."""
        found: dict[str, Any] = json.loads(self.run("inspect", "--type", "image", image))["OCIv1"]["config"]
        return found

    def build(self) -> str:
        """Our image, after its bases where these are not there yet; its name."""
        with FileLock(self._store / "lock"):
            self._bases()
            reach = [f"--volume={path}:{path}:ro" for path in _OF_THIS_MACHINE if Path(path).is_file()]
            with tempfile.NamedTemporaryFile("w", prefix="ringfence-dockerfile-") as file:
                file.write(_without_digests((ROOT / "Dockerfile").read_text()))
                file.flush()
                self._build(OURS, ROOT, "--file", file.name, *reach)
        return f"localhost/{OURS}"

    def _build(self, name: str, context: Path, *options: str) -> None:
        fixed = ("--isolation", "chroot", "--pull-never", "--layers", "--force-rm", "--quiet")
        self.run("build", *fixed, *options, "--tag", name, str(context))

    def _bases(self) -> None:
        lines = _without_digests((ROOT / "Dockerfile").read_text()).splitlines()
        names = [line.split()[1] for line in lines if line.startswith("FROM ")]
        targets = {name.partition(":")[0].replace("eclipse-temurin", "java"): name for name in names}
        wanted = {"java": f"docker.io/library/{targets['java']}", "python": f"docker.io/library/{targets['python']}"}
        with tempfile.TemporaryDirectory(prefix="ringfence-bases-") as scratch:
            for file in BASES.iterdir():
                shutil.copy(file, scratch)
            shutil.copy(self._debian(), scratch)
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={scratch}"]
            subprocess.run([*pip, "async-timeout==5.0.1"], check=True)
            for target, name in {**wanted, "servers": SERVERS}.items():
                self._build(name, Path(scratch), "--target", target)

    def _debian(self) -> Path:
        """The smallest Debian, as an archive."""
        made = self._store / "debian.tar"
        if not made.exists():
            with tempfile.TemporaryDirectory(prefix="ringfence-debian-") as scratch:
                root = Path(scratch) / "root"
                subprocess.run(["debootstrap", "--variant=minbase", _SUITE[0], str(root), _SUITE[1]], check=True)
                for package in (root / "var/cache/apt/archives").glob("*.deb"):
                    package.unlink()
                subprocess.run(["tar", "-C", str(root), "-cf", f"{made}.new", "."], check=True)
            Path(f"{made}.new").replace(made)
        return made


def _without_digests(dockerfile: str) -> str:
    """The bases by tag alone: what is built here in their place has other digests."""
    return re.sub(r"^(FROM [^\s@]+)@sha256:\w+", r"\1", dockerfile, flags=re.MULTILINE)
