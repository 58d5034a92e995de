"""The compatibility suite passes what is exactly once, and names each defect."""

from pathlib import Path

import pytest

from ringfence.connectors.api import SourceConnector
from ringfence.testing import CHECKS, CheckFailed, CheckSkipped, Scenario, Trial
from tests.compatibility import lines
from tests.compatibility.scenarios import (
    FilesScenario,
    FileStreamScenario,
    KeylessScenario,
    SparkTableScenario,
    SqlScenario,
    WebhookScenario,
)
from tests.support.broker import Broker

BY_NAME = {check.name: check for check in CHECKS}
IN_MEMORY = [
    ("settings", lines.UndocumentedConnector, "no documentation: folder, topic"),
    ("settings", lines.SilentConnector, "does not return SUPPORTED"),
    ("settings", lines.UnstableConnector, "returned two different results"),
    ("settings", lines.GreedyConnector, "returned 2 configurations|2 configs|tasks.max"),
    ("resume", lines.BehindConnector, "that were never added|too often"),
    ("resume", lines.TupleConnector, "is read back from JSON"),
    ("resume", lines.ForgetfulConnector, "must say where to continue"),
    ("values", lines.StrippingConnector, "text   was delivered as ''"),
    ("values", lines.FragileConnector, "ended with UnicodeEncodeError.* `UnreadableRecord`"),
    ("values", lines.RefusingConnector, "text é was refused: it is not ASCII"),
]


@pytest.mark.parametrize("name", ["settings", "resume", "values"])
def test_what_is_exactly_once_passes_in_memory(name: str, tmp_path: Path) -> None:
    BY_NAME[name].run(Trial(lines.LinesScenario, "nowhere:1", tmp_path))


@pytest.mark.parametrize("scenario", [FileStreamScenario, FilesScenario, SqlScenario])
def test_our_own_connectors_deliver_rare_values(scenario: type[Scenario], tmp_path: Path) -> None:
    BY_NAME["values"].run(Trial(scenario, "nowhere:1", tmp_path))


def test_offsets_without_records_are_taken_up_too(tmp_path: Path) -> None:
    BY_NAME["resume"].run(Trial(SparkTableScenario, "nowhere:1", tmp_path))


@pytest.mark.parametrize("name, connector, words", IN_MEMORY)
def test_a_defect_is_named_in_memory(name: str, connector: type[SourceConnector], words: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=words) as found:
        BY_NAME[name].run(Trial(lines.scenario(connector), "nowhere:1", tmp_path))
    assert not isinstance(found.value, CheckSkipped)


@pytest.mark.slow  # test_new_plugins.py has a kill that is survived, and one that finds a defect
@pytest.mark.parametrize("name", ["kills", "zombies", "stop", "reset", "tasks"])
def test_what_is_exactly_once_passes(name: str, broker: Broker, tmp_path: Path) -> None:
    BY_NAME[name].run(Trial(lines.LinesScenario, broker.bootstrap, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, connector, words",
    [
        ("kills", lines.NotebookConnector, "missing"),
        ("kills", lines.ForgetfulConnector, "too often"),
        ("zombies", lines.ForgetfulConnector, "too often"),
        ("stop", lines.DeafConnector, r"(?s)still running.* in poll"),
        ("reset", lines.NotebookConnector, "missing"),
        ("tasks", lines.NumberedConnector, "too often"),
    ],
)
def test_a_defect_is_found(
    name: str, connector: type[SourceConnector], words: str, broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(CheckFailed, match=words):
        BY_NAME[name].run(Trial(lines.scenario(connector), broker.bootstrap, tmp_path, seconds=30))


def test_a_task_that_needs_a_cluster_is_not_read_in_memory(tmp_path: Path, broker: Broker) -> None:
    with pytest.raises(CheckSkipped, match="no web process"):
        BY_NAME["resume"].run(Trial(WebhookScenario, broker.bootstrap, tmp_path))


@pytest.mark.slow
def test_requests_without_keys_come_twice(broker: Broker, tmp_path: Path) -> None:
    """So the report on WebhookSource means something: its senders do send again."""
    with pytest.raises(CheckFailed, match="too often"):
        BY_NAME["kills"].run(Trial(KeylessScenario, broker.bootstrap, tmp_path))
