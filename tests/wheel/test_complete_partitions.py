"""Source partitions that are complete: their offsets stay, their tasks end, and nothing is read again."""

from pathlib import Path

import pytest

from ringfence.local.plugin_installer import install_wheel
from tests.e2e.up import Up
from tests.guarantees.copies import committed
from tests.support.names import unique
from tests.support.waiting import eventually
from tests.support.wheels import index_variables, make_wheel

_SECONDS = 120.0
PARTS, ROWS = 5, 400
CODE = f"""
from ringfence.connectors.api import ConfigDef, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask

PARTS, ROWS = {PARTS}, {ROWS}

class PartsConnector(SourceConnector):
    @classmethod
    def config_def(cls): return ConfigDef()

    @classmethod
    def task_class(cls): return PartsTask

    def exactly_once_support(self, config): return ExactlyOnceSupport.SUPPORTED

    def start(self, config): self.topic = config["topic"]

    def task_configs(self, max_tasks):
        left = [str(part) for part in range(PARTS) if not self.is_complete(part)]
        return [
            {{"topic": self.topic, "parts": ",".join(left[number::max_tasks])}}
            for number in range(min(max_tasks, len(left)))
        ]

    def is_complete(self, part):
        offset = self.context.offset_reader.offset({{"part": part}})
        return offset is not None and offset["complete"]

class PartsTask(SourceTask):
    def start(self, config):
        self.topic, self.asked = config["topic"], False
        self.left = []
        for part in map(int, config["parts"].split(",")):
            offset = self.context.offset_reader.offset({{"part": part}})
            if offset is None or not offset["complete"]:
                self.left.append([part, 0 if offset is None else offset["row"]])

    def poll(self):
        if not self.left:
            self.context.wait(0.5)
            return None
        self.context.wait(0.01)
        part, first = self.left[0]
        rows = range(first + 1, min(first + 20, ROWS) + 1)
        self.left[0][1] = rows[-1]
        if rows[-1] == ROWS:
            del self.left[0]
        return [self.record(part, row) for row in rows]

    def record(self, part, row):
        offset = {{"row": row, "complete": row == ROWS}}
        return SourceRecord({{"part": part}}, offset, self.topic, value=f"{{part}}-{{row}}")

    def commit(self):
        if not self.left and not self.asked:
            self.asked = True
            self.context.request_task_reconfiguration()
"""


@pytest.fixture
def parts(up: Up, index: Path, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector is installed, and the platform has noticed."""
    for name, value in index_variables(index).items():
        monkeypatch.setenv(name, value)
    points = "[ringfence.connectors]\nParts = parts:PartsConnector\n"
    install_wheel(make_wheel(tmp_path, "parts", "1", {"parts.py": CODE}, entry_points=points), plugins)

    def found() -> bool:
        return "parts.PartsConnector" in [each["class"] for each in up.rest.expect(200, "GET", "/connector-plugins")]

    eventually(found, _SECONDS, "the connector is not found", pause=0.2)


def test_complete_partitions_are_left_out_and_none_of_their_rows_comes_twice(up: Up, parts: None) -> None:
    name = unique("parts")
    config = {"connector.class": "Parts", "topic": name, "tasks.max": "2", "value.converter": "StringConverter"}
    up.rest.settled(201, "PUT", f"/connectors/{name}/config", config)

    def tasks() -> list[int]:
        return [each["id"] for each in up.rest.expect(200, "GET", f"/connectors/{name}/status")["tasks"]]

    def values() -> list[bytes | None]:
        return [value for _, _, value, *_ in committed(up.bootstrap, name, up.connection.settings)]

    eventually(lambda: len(values()) > ROWS, _SECONDS, "no rows come")
    up.rest.settled(202, "POST", f"/connectors/{name}/restart?includeTasks=true")
    wanted = sorted(f"{part}-{row}".encode() for part in range(PARTS) for row in range(1, ROWS + 1))
    eventually(lambda: sorted(filter(None, values())) == wanted, _SECONDS, lambda: len(values()), pause=0.5)
    eventually(lambda: tasks() == [], _SECONDS, lambda: f"tasks {tasks()} are still there")
    assert up.rest.status(name)["connector"]["state"] == "RUNNING"

    up.rest.settled(202, "POST", f"/connectors/{name}/restart?includeTasks=true")
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    again = {"offsets": [{"partition": {"part": 3}, "offset": None}]}
    up.rest.expect(200, "PATCH", f"/connectors/{name}/offsets", again)
    up.rest.settled(202, "PUT", f"/connectors/{name}/resume")
    twice = sorted([*wanted, *(f"3-{row}".encode() for row in range(1, ROWS + 1))])
    eventually(lambda: sorted(filter(None, values())) == twice, _SECONDS, lambda: len(values()), pause=0.5)
    eventually(lambda: tasks() == [], _SECONDS, lambda: f"tasks {tasks()} are still there")
