"""The checker sees what it has to see."""

import pytest

from tests.e2e.checker import problems


def test_exact_sequences_with_the_last_number_as_offset_are_right() -> None:
    assert problems({0: [0, 1, 2], 1: [0]}, {0: 2, 1: 0}) == []
    assert problems({0: [5, 6]}, {0: 6}, first=5) == []
    assert problems({}, {}) == []


@pytest.mark.parametrize(
    "numbers, offset, words",
    [
        ([0, 1, 1, 2], 2, "more than once: [1]"),
        ([0, 2, 3], 3, "are missing: [1]"),
        ([1, 2], 2, "are missing: [0]"),
        ([0, 2, 1], 2, "2 stands in place 1"),
        ([0, 1, 2], 1, "the committed source offset is 1, the last record is 2"),
        ([0, 1, 2], 3, "the committed source offset is 3, the last record is 2"),
    ],
)
def test_each_kind_of_damage_is_named(numbers: list[int], offset: int, words: str) -> None:
    assert any(words in problem for problem in problems({0: numbers}, {0: offset}))


def test_an_offset_without_records_and_records_without_an_offset_are_seen() -> None:
    assert problems({}, {0: 4}) == ["task 0: the committed source offset is 4, the last record is None"]
    assert problems({0: [0]}, {}) == ["task 0: the committed source offset is None, the last record is 0"]


def test_what_a_zombie_adds_after_a_reset_is_seen() -> None:
    assert any("stands in place" in problem for problem in problems({0: [0, 1, 17, 2]}, {0: 2}))
