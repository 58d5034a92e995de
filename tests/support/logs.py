"""What was logged in a test."""

import pytest


def own_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what Ringfence and the tests logged. Clients that other tests left behind may log beside them."""
    return [record.getMessage() for record in caplog.records if record.name.startswith(("ringfence", "tests"))]
