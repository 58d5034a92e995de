"""Ids as Kafka sees them, and back."""

import pytest

from ringfence.fencing.ids import ConnectorName, TaskId, parse_task_transactional_id, task_transactional_id


@pytest.mark.parametrize("group", ["g", "g-1", "g-g"])
@pytest.mark.parametrize("name", ["c", "c-1", "g-c", "-"])
def test_a_task_is_told_from_its_transactional_id(group: str, name: str) -> None:
    task = TaskId(ConnectorName(name), 12)
    assert parse_task_transactional_id(group, task_transactional_id(group, task)) == task


@pytest.mark.parametrize(
    "given", ["", "c-0", "h-c-0", "g-c", "g-c-", "g-c-x", "g-c-007", "g-c-٣", "g--0", "g-c-replay"]
)
def test_what_is_no_id_of_a_task_of_the_group_names_no_task(given: str) -> None:
    assert parse_task_transactional_id("g", given) is None
