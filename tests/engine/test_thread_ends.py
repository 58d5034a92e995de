"""Threads that do not end are waited for together, not one after another."""

import threading
import time

from ringfence.engine.worker_threads import join_all


def test_threads_that_hang_are_waited_for_together() -> None:
    never, now = threading.Event(), threading.Event()
    now.set()
    threads = [
        threading.Thread(target=event.wait, name=name, daemon=True)
        for name, event in (("one", never), ("two", never), ("ended", now), ("three", never))
    ]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    try:
        assert join_all(threads, 4.0) == ["one", "two", "three"]
        assert 4.0 <= time.monotonic() - began < 11  # one after another: 12 s
    finally:
        never.set()
    assert join_all(threads, 30.0) == []
