"""One attempt of a counting task in a process of its own, to be killed: `python -m tests.guarantees.process SPEC`."""

import sys
import time

from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Plugin, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from tests.guarantees.stage import Counting, Plain, Script


def main(text: str) -> None:
    spec = TaskSpec.loads(text)
    script = Script(batch=20, before_poll=lambda task: time.sleep(0.01))
    task = type("Scripted", (Counting,), {"script": script})
    plugin = Plugin(task, spec.connector_config, Plain(raw=True))
    SourceTaskRun(spec, plugin, Reporter(spec.connection, spec.topics.status, spec.topics.events)).run()


if __name__ == "__main__":
    main(sys.argv[1])
