"""A lost config topic comes back encrypted where the workers encrypt it, whatever it was before."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.recovery import backup, backup_format
from ringfence.recovery.restore import Restore
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.lost_topics import known, lose, new_stage, worker

SECRET = "hunter2-of-the-source"


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    with new_stage(broker, unique) as made:
        yield made


def raw(stage: Stage) -> bytes:
    """All that the config topic holds."""
    log = TopicLog(stage.connection, stage.topics.config)
    try:
        return b"".join(each.value or b"" for each in log.read_to_end(Deadline.after(30)))
    finally:
        log.close()


def restored(stage: Stage, config: WorkerConfig) -> dict[str, str] | None:
    """The connector's configuration, as a leader reads it."""
    log = ConfigLog(stage.connection, stage.topics.config, Deadline.after(30), vault=config.vault)
    try:
        found = log.refresh(Deadline.after(30)).connector(stage.connector).config
        return None if found is None else dict(found)
    finally:
        log.close()


def test_a_restore_writes_nothing_in_clear(stage: Stage, key_file: Path) -> None:
    config = {"topic": stage.data, "database.password": SECRET}
    stage.configure(config)
    stage.count()
    plain = worker(stage)
    encrypting = replace(plain, settings={**plain.settings, "config.storage.encryption.enable": "true"})
    for before in ("in clear", "encrypted"):
        remembered = known(stage)
        copy = backup_format.loads(backup.from_kafka(stage.connection, encrypting, Deadline.after(60)).dumps())
        assert copy.connectors[stage.connector].config == config, f"the topic was {before}"
        lose(stage, stage.topics.config)
        Restore(encrypting, remembered, print).run(copy, resume=False)
        assert stage.data.encode() in raw(stage), "what is clear by rule stays so"
        assert SECRET.encode() not in raw(stage)
        assert restored(stage, encrypting) == config
