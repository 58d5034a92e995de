"""What the palette offers to whom."""

import re

import pytest
from django.test import Client

from ringfence.projection.models import ActiveTopic
from tests.support.accounts import account, bearer
from tests.support.leader import FakeLeader
from tests.support.pages import text

pytestmark = pytest.mark.usefixtures("login_required")


def test_the_palette_offers_only_what_one_may_do_and_see(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    def find(query: str, headers: dict[str, str]) -> list[str]:
        page = text(client.get(f"/ui/find?q={query}", headers={**headers, "hx-request": "true"}))
        found = re.findall(r'role="option"[^>]*href="([^"]+)"', page)
        return [each for each in found if not each.startswith("/ui/docs/")]  # which are for everybody

    viewer, operator = bearer(account("ann", ("viewer", "team-*"))), bearer(account("bob", ("operator", "team-*")))
    ActiveTopic.objects.create(connector="team-a", topic="team-a.events", since_ms=5)
    ActiveTopic.objects.create(connector="other", topic="payroll", since_ms=5)
    assert find("pause", viewer) == find("fence", operator) == find("payroll", operator) == []
    assert find("pause", operator) == ["/ui/connectors/team-a/actions/pause"]
    assert find("events", viewer) == ["/ui/connectors/team-a", "/ui/topics/team-a.events"]
    assert client.get("/ui/connectors/team-a/actions/pause", headers=viewer).status_code == 403
