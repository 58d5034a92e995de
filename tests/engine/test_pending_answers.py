"""What follows from a command's write waits for the command's answer, and not for long."""

import threading
import time

from ringfence.engine.leader.command_service import PendingAnswers


def test_others_wait_for_the_answers_that_are_pending_and_not_for_long() -> None:
    pending = PendingAnswers()
    sent, first, second, later = (threading.Event() for _ in range(4))
    for each in (sent, first, second):
        pending.add(each)
    sent.set()
    timer = threading.Timer(0.05, first.set)
    timer.start()
    began = time.monotonic()
    pending.wait(0.2)
    assert first.is_set(), "the wait ends no sooner"
    assert 0.2 <= time.monotonic() - began < 30, "the second one is not sent in time"
    second.set()
    pending.add(later)
    later.set()
    began = time.monotonic()
    pending.wait(60)
    assert time.monotonic() - began < 30
    timer.join()
