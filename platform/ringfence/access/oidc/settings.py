"""The settings of single sign-on, `RINGFENCE_OIDC_*`, a pure function of the environment; and why a login fails.

Apart from `provider`, which imports clients that a web process without single sign-on needs for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from ringfence.environment import is_loopback


class Unavailable(Exception):
    """The provider does not answer, or not correctly."""


class NotProven(Exception):
    """The provider's answer does not prove who logged in."""


CALLBACK: Final = "/ui/login/sso/callback"
_PREFIX: Final = "RINGFENCE_OIDC_"


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """One provider. redirect_uri: as registered there; groups_file: None if groups give no rights."""

    issuer: str
    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    label: str = "single sign-on"
    groups_file: Path | None = None
    secret_file: Path | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """The provider's name in messages."""
        return urlsplit(self.issuer).netloc

    def client_secret(self) -> str:
        """The secret; "" for a public client. It is read at each use, so that a new one needs no restart.

        Raises ImproperlyConfigured.
        """
        if self.secret_file is None:
            return ""
        try:
            secret = self.secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(
                f"{_PREFIX}CLIENT_SECRET_FILE={self.secret_file} cannot be read ({type(error).__name__}): let the user "
                "of the web process read it"
            ) from None
        if not secret:
            raise ImproperlyConfigured(
                f"{_PREFIX}CLIENT_SECRET_FILE={self.secret_file} is empty: put the client's secret in it, or remove "
                "the setting for a public client"
            )
        return secret


def may_be_called(url: object) -> bool:
    """Return whether codes and secrets may be sent there: over https, or over http to this machine."""
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError:
        return False
    if not parts.hostname or parts.username or parts.password or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(f"{parts.hostname}:{port}"))


def oidc_settings(environment: Mapping[str, str]) -> OidcSettings | None:
    """Return the settings; None if RINGFENCE_OIDC_ISSUER is not set. Raises ImproperlyConfigured with the remedy."""
    values = {
        name.removeprefix(_PREFIX): value.strip()
        for name, value in environment.items()
        if name.startswith(_PREFIX) and value.strip()
    }
    issuer = values.pop("ISSUER", "")
    if not issuer:
        if values:
            raise ImproperlyConfigured(
                f"{_PREFIX}{min(values)} is set, and {_PREFIX}ISSUER is not: name the provider, or remove the setting"
            )
        return None
    if not may_be_called(issuer) or urlsplit(issuer).query:
        raise ImproperlyConfigured(
            f"{_PREFIX}ISSUER={issuer}: the provider's issuer is expected, such as "
            "https://login.example.org/realms/main (http:// only for this machine)"
        )
    public = environment.get("RINGFENCE_PUBLIC_URL", "").strip().rstrip("/")
    if urlsplit(public).scheme not in ("http", "https") or not urlsplit(public).hostname:
        raise ImproperlyConfigured(
            f"{_PREFIX}ISSUER needs RINGFENCE_PUBLIC_URL, such as https://ringfence.example.org: the provider sends "
            f"people back to {CALLBACK} there"
        )
    client_id = values.pop("CLIENT_ID", "")
    if not client_id:
        raise ImproperlyConfigured(f"{_PREFIX}ISSUER needs {_PREFIX}CLIENT_ID: the client's id at the provider")
    defaults = OidcSettings(issuer, client_id, f"{public}{CALLBACK}")
    scopes = tuple(values.pop("SCOPES", " ".join(defaults.scopes)).replace(",", " ").split())
    if "openid" not in scopes:
        raise ImproperlyConfigured(f"{_PREFIX}SCOPES={' '.join(scopes)}: `openid` must be among them")
    groups_file, secret_file = values.pop("GROUPS_FILE", ""), values.pop("CLIENT_SECRET_FILE", "")
    settings = OidcSettings(
        issuer,
        client_id,
        defaults.redirect_uri,
        scopes,
        values.pop("NAME_CLAIM", defaults.name_claim),
        values.pop("GROUPS_CLAIM", defaults.groups_claim),
        values.pop("LABEL", defaults.label)[:60],
        Path(groups_file) if groups_file else None,
        Path(secret_file) if secret_file else None,
    )
    if values:
        hint = " (a secret comes from a file: CLIENT_SECRET_FILE)" if "CLIENT_SECRET" in values else ""
        raise ImproperlyConfigured(f"{_PREFIX}{min(values)} is not a setting{hint}: see docs/access.md")
    return settings


def password_login(value: str, oidc: OidcSettings | None) -> bool:
    """Return whether accounts log in with passwords: RINGFENCE_PASSWORD_LOGIN. Raises ImproperlyConfigured."""
    if value not in ("", "0", "1"):
        raise ImproperlyConfigured(f"RINGFENCE_PASSWORD_LOGIN={value}: 1 or 0 is expected")
    if value == "0" and oidc is None:
        raise ImproperlyConfigured(
            "RINGFENCE_PASSWORD_LOGIN=0 without RINGFENCE_OIDC_ISSUER: nobody could log in with an account. Set up "
            "single sign-on first"
        )
    return value != "0"
