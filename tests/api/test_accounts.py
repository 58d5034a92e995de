"""Accounts and tokens from the command line of the server."""

import io
import re

import pytest
from django.test import Client

from ringfence import cli
from ringfence.audit import accounts
from ringfence.audit.models import AuditEntry


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_DATABASE_URL", "the one that is set up")


def test_an_account_and_its_token_from_beginning_to_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.auth import authenticate

    from ringfence.access import tokens

    monkeypatch.setattr("sys.stdin", io.StringIO("a good long phrase\n"))
    assert cli.main(["users", "create", "ann", "--allow", "operator", "--pattern", "team-*", "--password-stdin"]) == 0
    assert authenticate(username="ann", password="a good long phrase")
    capsys.readouterr()
    assert cli.main(["tokens", "create", "ann", "ci", "--allow", "viewer", "--expires", "12h"]) == 0
    text = capsys.readouterr().out.strip()
    row = tokens.find(text)
    assert row is not None
    assert row.expires_ms - row.created_ms == 12 * 3_600_000
    assert cli.main(["users", "list"]) == 0
    assert cli.main(["tokens", "list"]) == 0
    listed = capsys.readouterr().out
    assert "operator on team-*" in listed
    assert text not in listed
    assert cli.main(["tokens", "revoke", str(row.pk)]) == 0
    assert tokens.find(text) is None
    assert cli.main(["users", "ungrant", "ann", "--pattern", "team-*"]) == 0
    assert cli.main(["users", "disable", "ann"]) == 0
    assert authenticate(username="ann", password="a good long phrase") is None
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["create account", "create token", "revoke token", "ungrant", "disable account"]
    assert text not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users", "create", "bob", "--allow", "king", "--no-password"], "neither a role nor a verb"),
        (["users", "create", "bob", "--password-stdin"], "too short"),
        (["users", "grant", "nobody", "--allow", "viewer"], "There is no account"),
        (["tokens", "create", "nobody", "x", "--allow", "viewer"], "There is no account"),
        (["tokens", "revoke", "77"], "There is no token 77"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.auth.models import User

    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert cli.main(arguments) == 1
    assert said in capsys.readouterr().err
    assert not User.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_missing_database_is_named(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    assert cli.main(["users", "list", "--data", str(tmp_path)]) == 1
    assert "--data DIR" in capsys.readouterr().err


@pytest.mark.parametrize("page", ["people", "roles", "tokens", "sessions"])
def test_each_link_of_the_lists_of_accounts_leads_somewhere(client: Client, page: str) -> None:
    accounts.create("ann", "right-password-1", ["viewer"])
    text = client.get(f"/ui/settings/{page}", follow=True).content.decode()
    links = set(re.findall(r'href="(/ui/settings/[^"]+)"', text))
    assert links
    assert {each: client.get(each).status_code for each in links if client.get(each).status_code >= 400} == {}
