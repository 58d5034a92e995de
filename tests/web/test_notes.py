"""Description, owner and runbook of a connector, on its page."""

import pytest
from django.test import Client

from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

NOTES = {
    "ringfence.description": "Orders <b>for</b> the warehouse",
    "ringfence.owner": "team-checkout",
    "ringfence.runbook": "https://wiki.example.com/orders?a=1&b=2",
}


def page(client: Client, leader: FakeLeader, notes: dict[str, str]) -> str:
    leader.config.config(connector("orders", topic="t", **notes))
    leader.start("orders")
    return text(client.get("/ui/connectors/orders"))


def test_they_stand_below_the_name(client: Client, leader: FakeLeader) -> None:
    shown = page(client, leader, NOTES)
    assert "Orders &lt;b&gt;for&lt;/b&gt; the warehouse" in shown
    assert "Owner: team-checkout" in shown
    link = '<a href="https://wiki.example.com/orders?a=1&amp;b=2" rel="noopener noreferrer">Runbook</a>'
    assert link in shown


@pytest.mark.parametrize("runbook", ["javascript:alert(1)", "data:text/html,x", "//evil.example", "see the wiki"])
def test_what_is_no_web_address_is_no_link(client: Client, leader: FakeLeader, runbook: str) -> None:
    shown = page(client, leader, {"ringfence.runbook": runbook})
    assert f"Runbook: {runbook}" in shown
    assert f'href="{runbook}' not in shown


def test_without_them_there_is_nothing(client: Client, leader: FakeLeader) -> None:
    shown = page(client, leader, {})
    assert 'id="description"' not in shown
    assert 'id="owner"' not in shown
