"""The memory of the JVMs of Java tasks, while they run."""

import threading

import psutil

from benchmarks.processes import Tree, memory_of
from tests.support.shared_jvms import is_shared


class JavaTasks:
    """The largest memory of a task's JVM, looked at twice a second while `with` lasts."""

    def __init__(self, pid: int) -> None:
        self._tree = Tree(pid)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.rss = 0

    def __enter__(self) -> "JavaTasks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            self._tree.cpu_seconds()  # it lists the processes
            for pid in self._tree.task_processes():
                for java in _java_of(pid):
                    self.rss = max(self.rss, memory_of(java).rss)


def _java_of(pid: int) -> list[int]:
    """A task's own JVM. The process of a task may also have started the shared one."""
    try:
        children = [child for child in psutil.Process(pid).children() if child.name() == "java"]
        return [child.pid for child in children if not is_shared(child)]
    except psutil.NoSuchProcess:
        return []
