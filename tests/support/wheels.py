"""Wheels made by hand, and an index of them: a folder that pip looks in, and nowhere else."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

NEEDS = "pip"


def make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str], needs: Sequence[str] = (), entry_points: str = ""
) -> Path:
    """A pure Python wheel in `folder`. files: their contents by path; needs: requirements."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {each}\n" for each in needs)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if entry_points:
        contents[f"{info}/entry_points.txt"] = entry_points
    lines = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    made = folder / f"{plain}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return made


def index_variables(folder: Path) -> dict[str, str]:
    """With which pip finds what is in the folder only."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}


def use_index(folder: Path, monkeypatch: pytest.MonkeyPatch, *versions: str) -> Path:
    """Let pip find what is in the folder, with the package `shade` in these versions, and nothing else."""
    for each in versions:
        make_shade(folder, each)
    for name, value in index_variables(folder).items():
        monkeypatch.setenv(name, value)
    return folder


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


_CONNECTOR = """
import shade
from ringfence.connectors.api import ConfigDef, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask


class {cls}(SourceConnector):
    \"\"\"Colours, with the library shade.\"\"\"

    version = "0"

    @classmethod
    def config_def(cls):
        return ConfigDef()

    @classmethod
    def task_class(cls):
        return {cls}Task

    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED

    def start(self, config):
        self.config = config

    def task_configs(self, max_tasks):
        return [{{"topic": self.config["topic"], "seen": shade.VERSION}}]


class {cls}Task(SourceTask):
    def start(self, config):
        self.topic = config["topic"]
        self.done = self.context.offset_reader.offset({{"s": "1"}}) is not None

    def poll(self):
        if self.done:
            self.context.wait(0.5)  # else it would ask again at once, with all that a processor has
            return None
        self.done = True
        value = f"{cls} {version} with shade {{shade.VERSION}}"
        return [SourceRecord({{"s": "1"}}, {{"n": 1}}, self.topic, value=value)]
"""


def make_shade(folder: Path, version: str) -> Path:
    """A library of which two plugins need different versions."""
    return make_wheel(folder, "shade", version, {"shade.py": f"VERSION = {version!r}\n"})


def make_plugin(folder: Path, name: str, version: str, shade: str, *more: str) -> Path:
    """A connector class `NameConnector` in the module `name`, which needs a version of shade."""
    cls = f"{name.capitalize()}Connector"
    return make_wheel(
        folder,
        f"{name}-source",
        version,
        {f"{name}.py": _CONNECTOR.format(cls=cls, version=version)},
        [f"shade=={shade}", "ringfence>=0.1", *more],
        f"[ringfence.connectors]\n{name.capitalize()} = {name}:{cls}\n",
    )
