"""Logs in by single sign-on, and reads what the login page says."""

from html import unescape
from typing import Any

from django.test import Client

from ringfence.access.models import Grant
from tests.support.oidc import FakeProvider

GROUPS = """
platform: {allow: admin}
team-a:
  - {allow: [editor], pattern: 'team-a-*', topics: 'team-a.*'}
  - {allow: viewer}
ops: {allow: viewer}
"""


PUBLIC = "http://localhost"


def browser() -> Client:
    return Client(headers={"host": "localhost", "user-agent": "Firefox"})


def begin(client: Client, next_page: str = "") -> str:
    """The provider's address that the login page leads to."""
    response = client.get("/ui/login/sso", {"next": next_page} if next_page else {})
    assert response.status_code == 302, response.content
    return str(response["location"])


def log_in(provider: FakeProvider, client: Client | None = None, next_page: str = "") -> Any:
    client = client or browser()
    return client.get("/ui/login/sso/callback", provider.log_in(begin(client, next_page)))


def refusal(response: Any) -> str:
    """What the login page says went wrong."""
    assert response.status_code in (400, 403, 429, 503), response.status_code
    page = str(response.content.decode())
    assert 'action="/ui/login"' in page
    return unescape(" ".join(page.split('role="alert">')[1].split("</p>")[0].split("</svg>")[-1].split()))


def rights(name: str) -> set[tuple[str, str, str]]:
    return set(Grant.objects.filter(user__username=name).values_list("what", "pattern", "topics"))
