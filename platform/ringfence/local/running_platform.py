"""A running `ringfence up`: who may enter, and what a job needs that it runs.

Its own user needs no login, others need a token or a single-use link.
"""

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence.access import login_link
from ringfence.environment import NoLogin, is_loopback, proxy_setting
from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.fencing.kafka.connection import Connection


_LINK_FILE = "login-link"
_ENDED_FILE = "login-required"


@dataclass(frozen=True, slots=True)
class UpAccess:
    """no_login: the user without login, "" for none. token: created for this start, "" if RINGFENCE_TOKEN is set.
    private: whether only this machine reaches it, and each user but its own needs a login.
    """

    no_login: str
    token: str
    code: str
    instance: DataDirectory
    private: bool

    @classmethod
    def of(
        cls, variables: Mapping[str, str], address: str, instance: DataDirectory, *, no_login: bool, login: bool
    ) -> "UpAccess":
        """variables: the environment. address: of web. Raises LocalError if --no-login would admit others."""
        reason = proxy_setting(variables)
        reason = f"{reason} is set" if reason else ""
        if not is_loopback(address):
            reason = f"other machines can reach {address}"
        if reason and no_login:
            raise LocalError(f"--no-login is only for this machine, and {reason}: remove one of them")
        if no_login and (unknown := _why_unknown()):
            raise LocalError(f"--no-login cannot be used, since {unknown}: remove it, and log in")
        private = not reason and not no_login
        reason = reason or _why_unknown()
        (instance.root / _ENDED_FILE).unlink(missing_ok=True)
        who = NoLogin.MACHINE if no_login else "" if reason or login else NoLogin.SAME_USER
        token = "" if variables.get("RINGFENCE_TOKEN") else instance.server_token()
        return cls(who, token, login_link.create(instance.root / _LINK_FILE), instance, private)

    def arguments(self) -> list[str]:
        """Return arguments for `ringfence web`, without secrets: other users see a process's arguments."""
        says = ["--no-login", self.no_login, "--no-login-ended", str(self._ended)] if self.no_login else []
        return [*says, "--login-link", str(self.instance.root / _LINK_FILE)]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the web process only."""
        return {**env, "RINGFENCE_TOKEN": self.token} if self.token else dict(env)

    def authorization(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the header with which this process itself asks web, as everybody who belongs to the platform."""
        return {"Authorization": f"Bearer {self.token or variables['RINGFENCE_TOKEN']}"}

    @property
    def is_over(self) -> bool:
        """Whether web has told that everybody needs a login by now, since there is an account or a token."""
        return bool(self.no_login) and self._ended.exists()

    def renew(self) -> "UpAccess":
        """Return the same with a login required, and a new link: the first one may have been used, or be too old."""
        return replace(self, no_login="", code=login_link.create(self.instance.root / _LINK_FILE))

    @property
    def _ended(self) -> Path:
        return self.instance.root / _ENDED_FILE

    def lines(self, url: str) -> list[str]:
        """Return what the user at the terminal needs to know."""
        token = f"the token in {self.instance.root / 'token'}" if self.token else "RINGFENCE_TOKEN"
        link = f"A link that logs a browser in, once: {url}/ui/login?link={self.code}"
        match "" if self.is_over else self.no_login:
            case NoLogin.MACHINE:
                return ["No login is needed on this machine."]
            case NoLogin.SAME_USER:
                others = f"All others need an account or {token}."
                return [f"No login is needed by {_user()} on this machine. {others}", link]
            case _:
                return [f"A login is required: with an account or {token}.", link]


def _why_unknown() -> str:
    """Return why it cannot be told here which process sends a request; "" if it can."""
    return "" if os.path.exists("/proc/self/fd") else "this system does not tell which process sends a request"


def _user() -> str:
    try:
        return f"the user {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # for example in a container
        return f"the user with the id {os.getuid()}"


@dataclass(frozen=True, slots=True)
class Running:
    """What a job needs to know about a running Ringfence. environment: of its processes."""

    url: str
    environment: Mapping[str, str] = field(repr=False)
    instance: DataDirectory
    door: UpAccess

    def connection(self, client_id: str) -> "Connection":
        """Return the connection to Kafka, with the workers' login."""
        from ringfence.worker_config import WorkerConfig

        return WorkerConfig.from_environment(self.environment).connection(client_id)


Job = Callable[[Running], int | None]
"""A job to run when everything is ready. An exit code stops everything; None leaves it running."""
