"""Who comes in at `ringfence up`: its own user without a login, everybody else with a token or by a link, once."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.access import login_link
from ringfence.environment import NoLogin, is_loopback, proxy_setting
from ringfence.local.errors import LocalError
from ringfence.local.instance import Instance

_LINK_FILE = "login-link"


@dataclass(frozen=True, slots=True)
class Door:
    """`no_login`: who needs none, "" for nobody. `token`: one made for this start, "" where RINGFENCE_TOKEN is set."""

    no_login: str
    token: str
    code: str
    instance: Instance

    @classmethod
    def of(cls, given: Mapping[str, str], address: str, instance: Instance, *, no_login: bool, login: bool) -> "Door":
        """`given`: the environment; `address`: where web listens. Raises LocalError where --no-login lets others in."""
        reason = proxy_setting(given)
        reason = f"{reason} is set" if reason else ""
        if not is_loopback(address):
            reason = f"other machines reach {address}"
        if reason and no_login:
            raise LocalError(f"--no-login is for this machine alone, and {reason}: leave one of them out")
        who = NoLogin.MACHINE if no_login else "" if reason or login else NoLogin.SAME_USER
        token = "" if given.get("RINGFENCE_TOKEN") else instance.server_token()
        return cls(who, token, login_link.create(instance.root / _LINK_FILE), instance)

    def arguments(self) -> list[str]:
        """For `ringfence web`. No secret is among them: other users see a process's arguments."""
        says = ["--no-login", self.no_login] if self.no_login else []
        return [*says, "--login-link", str(self.instance.root / _LINK_FILE)]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Of the web process alone."""
        return {**env, "RINGFENCE_TOKEN": self.token} if self.token else dict(env)

    def lines(self, url: str) -> list[str]:
        """What the person at the terminal needs to know."""
        token = f"the token in {self.instance.root / 'token'}" if self.token else "RINGFENCE_TOKEN"
        link = f"A link that logs a browser in, once: {url}/ui/login?link={self.code}"
        match self.no_login:
            case NoLogin.MACHINE:
                return ["Nobody on this machine needs to log in."]
            case NoLogin.SAME_USER:
                others = f"Everybody else needs an account or {token}."
                return [f"No login is needed by {_user()} on this machine. {others}", link]
            case _:
                return [f"Everybody logs in: with an account or {token}.", link]


def _user() -> str:
    try:
        return f"the user {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # in a container, say
        return f"the user with the id {os.getuid()}"
