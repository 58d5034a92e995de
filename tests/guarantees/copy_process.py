"""One attempt of a Kafka source that kills itself: `python -m tests.guarantees.copy_process SPEC POLLS`."""

import os
import signal
import sys
from collections.abc import Sequence

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.connectors.builtin.kafka_source.task import KafkaSourceTask
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Plugin, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from tests.guarantees.stage import Plain


class Mortal(KafkaSourceTask):
    left = 0
    """After so many polls with records, the process is killed in the next one: the last batch's commit is under way."""

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        batch = super().poll()
        self.left -= bool(batch)
        return batch


def main(text: str, polls: str) -> None:
    spec = TaskSpec.loads(text)
    Mortal.left = int(polls)
    plugin = Plugin(Mortal, spec.connector_config, Plain(raw=True))
    SourceTaskRun(spec, plugin, Reporter(spec.connection, spec.topics.status, spec.topics.events)).run()


if __name__ == "__main__":
    main(*sys.argv[1:3])
