"""The example in docs/writing-a-connector.md, as its readers will run it."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from ringfence.connectors.api import ConnectorError, ConnectorTransactionBoundaries
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.plugins import PluginRegistry, class_path, load_task_class
from ringfence.fencing.task.transaction_context import Ending, RequestedEndings
from tests.connectors.fakes import FakeContext, FakeOffsets, poll_all

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def inbox() -> Iterator[ModuleType]:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "writing-a-connector.md").read_text(), re.DOTALL)
    module = ModuleType("inbox")
    sys.modules["inbox"] = module
    for code in blocks:
        exec(compile(code, "inbox.py", "exec"), module.__dict__)
    yield module
    del sys.modules["inbox"]


def test_the_example_is_found_validated_and_delivers_each_file_once(inbox: ModuleType, tmp_path: Path) -> None:
    entry = re.search(r'"ringfence\.connectors"\]\n(\w+) = "(\S+)"', (DOCS / "writing-a-connector.md").read_text())
    assert entry is not None
    registry = PluginRegistry.discover([EntryPoint(entry[1], entry[2], "ringfence.connectors")])
    assert registry.broken == {}
    for name in ("Inbox", "InboxConnector", "inbox.InboxConnector"):
        assert registry.find(name).cls is inbox.InboxConnector

    config = {"name": "c", "connector.class": "Inbox", "folder": str(tmp_path), "topic": "files"}
    connector = registry.find("Inbox").cls()
    definition = connector.config_def()
    assert not [value for value in definition.validate(config) if value.errors]
    assert not set(definition.keys) & set(source_config_def(config).keys)
    assert connector.validate(config) == {}
    assert "does not exist" in connector.validate({**config, "folder": "/nowhere"})["folder"][0]

    connector.start(config)
    (task_config,) = connector.task_configs(4)
    for name in ("b.txt", "a.txt", "ignored.csv"):
        (tmp_path / name).write_text(f"in {name}")
    task = load_task_class(class_path(connector.task_class()))()
    task.context = FakeContext()
    task.start(task_config)
    delivered = poll_all(task)
    assert delivered == [("in a.txt", {"name": "a.txt"}), ("in b.txt", {"name": "b.txt"})]

    (tmp_path / "c.txt").write_text("in c.txt")
    again = load_task_class(class_path(connector.task_class()))()
    again.context = FakeContext(FakeOffsets([({"folder": str(tmp_path)}, delivered[-1][1])]))
    again.start(task_config)
    assert poll_all(again) == [("in c.txt", {"name": "c.txt"})]
    tmp_path.rename(tmp_path.with_name("gone"))
    with pytest.raises(ConnectorError, match="is gone"):
        again.poll()


def test_the_example_with_transactions_commits_whole_files_and_aborts_broken_ones(
    inbox: ModuleType, tmp_path: Path
) -> None:
    config = {"folder": str(tmp_path), "topic": "lines"}
    connector = inbox.WholeFilesConnector()
    assert connector.can_define_transaction_boundaries(config) is ConnectorTransactionBoundaries.SUPPORTED
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(700)) + "END 700\n")
    (tmp_path / "b.txt").write_text("torn\nEND 2\n")
    (tmp_path / "c.txt").write_text("END 0")
    task = load_task_class(class_path(connector.task_class()))()
    task.context = context = FakeContext()
    task.start(config)
    with pytest.raises(ConnectorError, match=r"transaction\.boundary=connector"):
        task.poll()
    context.transaction_context = asked = RequestedEndings()
    found: list[tuple[int, Ending | None]] = []
    while (batch := task.poll()) is not None:
        found += [(len(part.batch or ()), part.ending) for part in asked.parts(batch)]
    assert found == [(500, None), (200, Ending.COMMIT), (1, Ending.ABORT), (0, Ending.COMMIT)]
