"""Sums over all connectors: as if all were counted each time, and by a look at the changed ones only."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.tally import Tally

names = st.sampled_from([ConnectorName(name) for name in "abc"])
configs = st.none() | st.dictionaries(st.sampled_from("xy"), st.sampled_from(["1", "2", "30"]), max_size=2)


def measure(connector: ConnectorState) -> Mapping[str, tuple[int, ...]]:
    return {key: (1, int(value)) for key, value in (connector.config or {}).items()}


def count_all(state: ClusterState) -> dict[str, tuple[int, ...]]:
    connectors, totals = Counter[str](), Counter[str]()
    for connector in state.connectors.values():
        for key, (_, value) in measure(connector).items():
            connectors[key] += 1
            totals[key] += value
    return {key: (connectors[key], totals[key]) for key in connectors}


@given(st.lists(st.tuples(st.integers(0, 10), names, configs), max_size=12), st.lists(st.integers(0, 12), max_size=20))
def test_sums_are_those_of_the_state_in_any_order(
    versions: list[tuple[int, ConnectorName, dict[str, str] | None]], order: list[int]
) -> None:
    states = [ClusterState()]
    for parent, name, config in versions:
        before = states[parent % len(states)]
        states.append(apply(before, before.end, ConnectorRecord(name, config)))
    tally = Tally(measure)
    for index in [*range(len(states)), *order]:
        state = states[index % len(states)]
        sums = count_all(state)
        assert tally.sums(state) == sums
        assert (tally.sum_of(state, "x"), tally.sum_of(state, "y")) == (sums.get("x"), sums.get("y"))


def test_connectors_that_have_not_changed_are_not_looked_at() -> None:
    looks: list[str] = []

    def note(connector: ConnectorState) -> Mapping[str, tuple[int, ...]]:
        looks.append(connector.name)
        return measure(connector)

    state = ClusterState()
    for number in range(100):
        state = apply(state, state.end, ConnectorRecord(ConnectorName(f"c{number}"), {"x": "1"}))
    tally = Tally(note)
    assert tally.sums(state) == {"x": (100, 100)}
    looks.clear()
    state = apply(state, state.end, ConnectorRecord(ConnectorName("c7"), {"x": "5"}))
    assert tally.sums(state) == {"x": (100, 104)}
    assert looks == ["c7"]
