"""How many queries a page or an answer costs, whatever time it takes."""

from collections.abc import Mapping, Sequence

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ringfence.web.templatetags.ringfence import installed_titles

_NOW_AND_THEN = ("heartbeats_heartbeat", "heartbeats_freshness", "mirror_loglevel")
"""What is asked for once a second or two by whatever request comes then: on a slow machine more than once for one."""


def _capture(client: Client, path: str, headers: Mapping[str, str]) -> list[str]:
    installed_titles.forget()
    installed_titles.read()  # kept for ten seconds: whether this GET paid for them would depend on the time
    with CaptureQueriesContext(connection) as captured:
        response = client.get(path, headers=dict(headers))
    assert response.status_code == 200, path
    asked = [str(each["sql"]) for each in captured.captured_queries]
    return [sql for sql in asked if not any(table in sql for table in _NOW_AND_THEN)]


def count_queries(client: Client, paths: Sequence[str], headers: Mapping[str, str] | None = None) -> list[int]:
    """How many a GET of each of them costs, without those that depend on the time."""
    return [len(_capture(client, path, headers or {})) for path in paths]
