"""What a browser has to fetch for a page of the console on its first visit: django-unfold's frame, and little more."""

import gzip
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ringfence.access.models import Grant, Token
from ringfence.audit.models import AuditEntry
from ringfence.projection.models import ClusterInfo
from tests.e2e.browser.pages import PAGES
from tests.support.leader import FakeLeader
from tests.support.topics import connector
from tests.web.test_weight import ZIP, body

NEEDED = re.compile(r'(?:src|href)="(/static/[^"]+|/console/jsi18n/)"')
ICONS = "/static/unfold/fonts/material-symbols/Material-Symbols-Outlined.woff2"
"""Named by unfold's style sheet."""
MOST = 520_000
"""Nearly all of it are unfold's own files, 292 kB its font of icons; once fetched, they are in the browser's cache."""
LEFT_OUT = {"chart", " x-sort", "jquery", "prepopulate"}
"""Django's scripts that need jQuery (templates/admin, `console.lists`), and what no page of ours has."""
HEADERS = 500
"""Of each answer, at most."""


@pytest.fixture
def much(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """Something to show for each page, and full pages of the lists."""
    monkeypatch.setattr("ringfence.console.stuck.waiting", list)
    names = [f"flights-{number}" for number in range(50)]
    for name in names:
        leader.config.config(connector(name, topic="t"))
    leader.start("flights-1", tasks=2)
    ClusterInfo.objects.update_or_create(id=1, defaults={"leader": "w1", "incarnation": "i1"})
    users = User.objects.bulk_create(User(username=name) for name in names)
    Grant.objects.bulk_create(Grant(user=user, what="operator", pattern=f"{user.username}-*") for user in users)
    Token.objects.bulk_create(Token(user=user, name="job", digest=user.username, created_ms=1_000) for user in users)
    AuditEntry.objects.bulk_create(
        AuditEntry(time_ms=1_000, action="restart", connector=name, message=f"Ticket {number * 7919}")
        for number, name in enumerate(names)
    )
    return leader


def console_pages() -> dict[str, str]:
    entry = AuditEntry.objects.earliest("id").pk
    return {
        name: path.format(running="flights-1", group="payments").replace("auditentry/1/", f"auditentry/{entry}/")
        for name, path in PAGES.items()
        if name.startswith("console")
    }


def fetched(client: Client, address: str) -> bytes:
    """Compressed, where the server does that."""
    response: Any = client.get(address, headers=ZIP)
    assert response.status_code == 200, address
    sent = body(response)
    response.close()
    return sent


def test_each_page_is_light_on_the_first_visit(client: Client, much: FakeLeader) -> None:
    files: dict[str, int] = {}
    weights: dict[str, int] = {}
    for name, address in console_pages().items():
        page = fetched(client, address)
        html = gzip.decompress(page).decode()
        needed = {*NEEDED.findall(html), ICONS}
        files |= {one: len(fetched(client, one)) + HEADERS for one in needed - files.keys()}
        weights[name] = len(page) + HEADERS + sum(files[one] for one in needed)
        classes = {word for found in re.findall(r'class="([^"]*)"', html) for word in found.split()}
        assert not LEFT_OUT & {*classes, *re.findall(r"\sx-[a-z]+|jquery|prepopulate", html)}, name
    assert len(weights) > 10
    assert {name: weight for name, weight in weights.items() if weight > MOST} == {}
