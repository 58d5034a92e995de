"""Lets one answer serve all who ask at the same time, as attempts that share a process do.

An answer is begun after its questions were asked, so it is as new as one of the asker's own.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


class _Asker(Generic[_Question, _Answer]):
    def __init__(self, question: _Question) -> None:
        self.question = question
        self.answers: list[_Answer] = []
        """One, once it is there."""


class Gathering(Generic[_Question, _Answer]):
    """Answers the questions of several threads, one group of them at a time. Thread-safe."""

    def __init__(self, answer: Callable[[Sequence[_Question]], Sequence[_Answer]]) -> None:
        """answer: returns the answers to these questions, in their order. It runs on the thread of one who asks."""
        self._answer = answer
        self._condition = threading.Condition()
        self._waiting: list[_Asker[_Question, _Answer]] = []
        self._is_busy = False

    def ask(self, question: _Question) -> _Answer:
        """Return the answer. Raises what `answer` raises on this thread; the others of the group then ask again."""
        me: _Asker[_Question, _Answer] = _Asker(question)
        with self._condition:
            self._waiting.append(me)
            self._condition.wait_for(lambda: me.answers or not self._is_busy)
            if me.answers:
                return me.answers[0]
            self._is_busy = True
            group, self._waiting = self._waiting, []
        try:
            for each, answer in zip(group, self._answer([each.question for each in group]), strict=True):
                each.answers.append(answer)
        finally:
            with self._condition:
                self._is_busy = False
                self._waiting = [each for each in group if each is not me and not each.answers] + self._waiting
                self._condition.notify_all()
        return me.answers[0]
