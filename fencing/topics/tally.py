"""Sums over all connectors of a state, by key, such as what each account's connectors take.

From one state to the next, only connectors that have changed are looked at: thousands of others cost nothing.
"""

import threading
from collections.abc import Callable, Mapping

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState

Amounts = tuple[int, ...]


class Tally:
    """Thread-safe. States may come in any order."""

    def __init__(self, measure: Callable[[ConnectorState], Mapping[str, Amounts]]) -> None:
        """measure: returns what a connector counts as, by key, and none of it as long as it has no records. It depends
        on nothing else. All amounts have the same length.
        """
        self._measure = measure
        self._lock = threading.Lock()
        self._state = ClusterState()
        self._by_connector: dict[ConnectorName, Mapping[str, Amounts]] = {}
        self._sums: dict[str, Amounts] = {}
        self._counts: dict[str, int] = {}

    def sums(self, state: ClusterState) -> Mapping[str, Amounts]:
        """Return the sums of the state, without keys that no connector has."""
        with self._lock:
            self._follow(state)
            return dict(self._sums)

    def sum_of(self, state: ClusterState, key: str) -> Amounts | None:
        """Return one of the sums; None for a key that no connector has."""
        with self._lock:
            self._follow(state)
            return self._sums.get(key)

    def _follow(self, state: ClusterState) -> None:
        for name in state.changes_since(self._state):
            for key, amounts in self._by_connector.pop(name, {}).items():
                self._remove(key, amounts)
            if measures := self._measure(state.connector(name)):
                self._by_connector[name] = measures
            for key, amounts in measures.items():
                before = self._sums.get(key, (0,) * len(amounts))
                self._sums[key] = tuple(map(sum, zip(before, amounts, strict=True)))
                self._counts[key] = self._counts.get(key, 0) + 1
        self._state = state

    def _remove(self, key: str, amounts: Amounts) -> None:
        self._counts[key] -= 1
        if self._counts[key]:
            self._sums[key] = tuple(a - b for a, b in zip(self._sums[key], amounts, strict=True))
        else:
            del self._counts[key], self._sums[key]
