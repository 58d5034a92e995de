"""What is configured of single sign-on, and what the groups file gives; each mistake is named with its remedy."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from ringfence.access.oidc.claims import (
    GroupGrant,
    LoginDenied,
    WrongGroups,
    grants_for,
    groups_of,
    name_of,
    parse_groups,
    read_groups,
)
from ringfence.access.oidc.settings import oidc_settings, password_login

GIVEN = {
    "RINGFENCE_OIDC_ISSUER": "https://login.example.org/realms/main",
    "RINGFENCE_OIDC_CLIENT_ID": "ringfence",
    "RINGFENCE_PUBLIC_URL": "https://ringfence.example.org/",
}


def test_three_settings_are_enough(tmp_path: Path) -> None:
    assert oidc_settings({}) is None
    found = oidc_settings(GIVEN)
    assert found is not None
    assert found.redirect_uri == "https://ringfence.example.org/ui/login/sso/callback"
    assert (found.scopes, found.name_claim) == (("openid", "profile", "email"), "preferred_username")
    assert found.client_secret() == "", "a public client"
    secret = tmp_path / "secret"
    given = {**GIVEN, "RINGFENCE_OIDC_CLIENT_SECRET_FILE": str(secret), "RINGFENCE_OIDC_SCOPES": "openid, groups"}
    found = oidc_settings(given)
    assert found is not None
    assert found.scopes == ("openid", "groups")
    for text in (None, " \n"):
        if text is not None:
            secret.write_text(text)
        with pytest.raises(ImproperlyConfigured, match="CLIENT_SECRET_FILE"):
            found.client_secret()
    secret.write_text(" s3cret\n")
    assert found.client_secret() == "s3cret"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"RINGFENCE_OIDC_ISSUER": ""}, "RINGFENCE_OIDC_ISSUER is not"),
        ({"RINGFENCE_OIDC_ISSUER": "login.example.org"}, "issuer is expected"),
        ({"RINGFENCE_OIDC_ISSUER": "http://login.example.org"}, "only for this machine"),
        ({"RINGFENCE_OIDC_ISSUER": "https://user:pass@login.example.org"}, "issuer is expected"),
        ({"RINGFENCE_OIDC_ISSUER": "https://login.example.org:x/"}, "issuer is expected"),
        ({"RINGFENCE_OIDC_CLIENT_ID": ""}, "needs RINGFENCE_OIDC_CLIENT_ID"),
        ({"RINGFENCE_PUBLIC_URL": ""}, "needs RINGFENCE_PUBLIC_URL"),
        ({"RINGFENCE_OIDC_SCOPES": "profile"}, "`openid` must be among them"),
        ({"RINGFENCE_OIDC_CLIENT_SECRET": "s3cret"}, "a secret comes from a file"),
        ({"RINGFENCE_OIDC_GROUP_CLAIM": "roles"}, "RINGFENCE_OIDC_GROUP_CLAIM is not a setting"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_the_start(change: dict[str, str], says: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=says) as refused:
        oidc_settings({**GIVEN, **change})
    assert "s3cret" not in str(refused.value)


def test_nobody_shuts_all_accounts_out() -> None:
    assert password_login("", None)
    assert not password_login("0", oidc_settings(GIVEN))
    for given in ("0", "no"):
        with pytest.raises(ImproperlyConfigured, match="RINGFENCE_PASSWORD_LOGIN"):
            password_login(given, None)


def test_groups_add_up() -> None:
    mapping = parse_groups(
        """
        a: {allow: editor, pattern: 'a-*', topics: 'a.* log'}
        b:
          - {allow: editor, pattern: 'a-*', topics: [b]}
          - {allow: [viewer, operate]}
        c: {allow: editor, pattern: 'a-*'}
        """
    )
    assert grants_for(["a", "unknown"], mapping) == (GroupGrant("editor", "a-*", "a.* log"),)
    both = grants_for(["b", "a"], mapping)
    assert both == (GroupGrant("editor", "a-*", "a.* log b"), GroupGrant("viewer operate"))
    assert grants_for(["a", "b", "c"], mapping)[0] == GroupGrant("editor", "a-*", "*")
    assert grants_for([], mapping) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a mapping"),
        ("- a", "a mapping"),
        ("a: [", "not YAML"),
        ("1: {allow: viewer}", "put it in quotes"),
        ("a: viewer", "is expected"),
        ("a: []", "no entry"),
        ("a: {pattern: x}", "is expected"),
        ("a: {allow: owner}", "'owner' is neither a role nor a verb"),
        ("a: {allow: ''}", "names no role"),
        ("a: {allow: viewer, patern: x}", "'patern' is unknown"),
        ("a: {allow: viewer, pattern: [x]}", "one pattern"),
        ("a: {allow: viewer, topics: 'a b!'}", "matches no topic"),
        ("a: {allow: 1}", "neither a string"),
    ],
)
def test_a_groups_file_that_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(WrongGroups, match=says):
        parse_groups(text)


def test_a_groups_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongGroups, match=r"RINGFENCE_OIDC_GROUPS_FILE=.*cannot be read \(FileNotFoundError\)"):
        read_groups(tmp_path / "groups.yaml")


@pytest.mark.parametrize(
    ("claims", "name", "groups"),
    [
        ({"groups": ["a", "b", "a"]}, "groups", ("a", "b")),
        ({"hd": "example.org"}, "hd", ("example.org",)),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ("a",)),
        ({"https://example.org/groups": ["a"]}, "https://example.org/groups", ("a",)),
        ({"a.b": ["exact"], "a": {"b": ["nested"]}}, "a.b", ("exact",)),
        ({}, "groups", ()),
        ({"a": "text"}, "a.b", ()),
    ],
)
def test_groups_are_found_where_providers_put_them(claims: dict[str, Any], name: str, groups: tuple[str, ...]) -> None:
    assert groups_of(claims, name) == groups


def test_claims_of_another_shape_are_refused() -> None:
    for wrong in ({"groups": [1]}, {"groups": {"a": "b"}}, {"groups": ["a"] * 5001}, {"groups": [["a"]]}):
        with pytest.raises(LoginDenied, match="RINGFENCE_OIDC_GROUPS_CLAIM"):
            groups_of(wrong, "groups")
    with pytest.raises(LoginDenied, match="more groups"):
        groups_of({"_claim_names": {"groups": "src1"}}, "groups")
    assert name_of({"email": " ann@example.org "}, "email") == "ann@example.org"
    with pytest.raises(LoginDenied, match="not verified"):
        name_of({"email": "ann@example.org", "email_verified": False}, "email")
    for claims in ({}, {"preferred_username": ""}, {"preferred_username": 7}):
        with pytest.raises(LoginDenied, match="RINGFENCE_OIDC_NAME_CLAIM"):
            name_of(claims, "preferred_username")
