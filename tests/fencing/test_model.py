"""The protocol's rules, each taken out in turn: the machine must find a duplicate, a loss or a torn state (Violation).

With all rules in, it must find none. Deterministic: the same moves on every machine.
"""

import pytest

from tests.fencing.model.cluster import without
from tests.fencing.model.machine import LEADERS, MOVES, ZOMBIES, search
from tests.fencing.model.world import Rules, Violation

ENOUGH = 2000  # examples at the most; the search ends with the first violation


@pytest.mark.parametrize("moves", [MOVES, ZOMBIES, LEADERS], ids=["all moves", "zombies", "leaders"])
def test_with_all_rules_every_record_is_visible_exactly_once(moves: frozenset[str]) -> None:
    search(Rules(), 60, moves, derandomize=True)


@pytest.mark.parametrize(
    ("rule", "moves"),
    [
        ("uncommitted_end", MOVES),
        ("end_after_init", MOVES),
        ("always_fence", ZOMBIES),
        ("count_names_generation", LEADERS),
        ("delete_keeps_count", ZOMBIES),
        ("placement_attempts", ZOMBIES),
        ("check_after_init", ZOMBIES),
        ("init_before_offsets", ZOMBIES),
    ],
)
def test_without_this_rule_the_machine_finds_a_violation(rule: str, moves: frozenset[str]) -> None:
    with pytest.raises(Violation):
        search(without(rule), ENOUGH, moves, derandomize=True)
