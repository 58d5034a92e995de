"""Lines that strangers cause: one for each interval and subject, with the number of the others."""

import logging

import pytest

from ringfence.connectors.sdk.log_limit import LogLimit

log = logging.getLogger(__name__)


def test_one_line_for_each_interval_and_subject(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limit = LogLimit(10, lambda: now[0])
    for second in range(25):
        now[0] = second
        limit.warning(log, "hook %s", "a", subject="a")
    limit.warning(log, "hook %s", "b", subject="b")
    # Threads that other tests left behind may log beside it, also ours.
    assert [record.getMessage() for record in caplog.records if record.name == __name__] == [
        "hook a",
        "hook a (9 more since the last such line)",
        "hook a (9 more since the last such line)",
        "hook b",
    ]
