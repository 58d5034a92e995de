"""What a test changes of loggers is gone in the next one, which looks at what is logged."""

import logging

import pytest


@pytest.mark.parametrize("_time", [1, 2])
def test_a_logger_that_a_test_has_created_is_as_new_in_the_next_one(_time: int) -> None:
    created = logging.getLogger("ringfence.created_by_a_test")
    assert (created.level, created.disabled, created.propagate) == (logging.NOTSET, False, True)
    created.setLevel(logging.CRITICAL)
    created.disabled, created.propagate = True, False


@pytest.mark.parametrize("_time", [1, 2])
def test_a_logger_that_was_there_before_is_given_back(_time: int) -> None:
    there = logging.getLogger("ringfence")
    assert there.getEffectiveLevel() <= logging.WARNING
    there.setLevel(logging.ERROR)
