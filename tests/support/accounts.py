"""Accounts with their grants and tokens, in the tests' database."""

from typing import Any

CONFIG = {"connector.class": "VerifiableSource", "topic": "t"}


JSON = "application/json"


def account(name: str, *grants: tuple[str, str]) -> Any:
    from django.contrib.auth.models import User

    from ringfence.access.models import Grant

    user = User.objects.create_user(name, password=f"{name}-password-9")
    for what, pattern in grants:
        Grant.objects.create(user=user, what=what, pattern=pattern)
    return user


def bearer(user: Any, what: str = "admin", pattern: str = "*", seconds: float = 0) -> dict[str, str]:
    from ringfence.access import tokens

    _, text = tokens.create(user, "ci", what.split(), pattern, seconds)
    return {"authorization": f"Bearer {text}"}


MASTER = {"authorization": "Bearer master"}
