"""Translates Java's security settings to librdkafka's: SASL logins, and keys and certificates as PEM.

No error quotes a value: a malformed login or key is still a secret.
"""

import re
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.sdk.kafka_settings import oauth_tokens

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", oauth_tokens.MECHANISM)
_LOGIN_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": "PLAIN",
    "org.apache.kafka.common.security.scram.ScramLoginModule": "SCRAM",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": oauth_tokens.MECHANISM,
}
_MODULE_NAMES: Final = "PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule"
_LOGIN = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>(\s+\w+\s*=\s*(\"(\\.|[^\"\\])*\"|[^\s\";]+))*)\s*;\s*"
)
_OPTION = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(?:\"((?:\\.|[^\"\\])*+)\"|([^\s\";]+))")
_EITHER: Final = (
    ("ssl.ca.location", "ssl.ca.pem"),
    ("ssl.certificate.location", "ssl.certificate.pem"),
    ("ssl.key.location", "ssl.key.pem"),
)

SECRETS: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.password",
        oauth_tokens.CLIENT_SECRET,
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "ssl.keystore.key",
        "ssl.key.pem",
    }
)
"""Settings whose values must not be shown."""

_LOGINS: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        oauth_tokens.CLIENT_ID,
        oauth_tokens.CLIENT_SECRET,
        oauth_tokens.SCOPE,
        oauth_tokens.EXTENSIONS,
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
    }
)
_TOLD: Final = frozenset({oauth_tokens.ENDPOINT, oauth_tokens.CA_FILE, oauth_tokens.CA_TEXT})
"""Who is told the secret of a login by tokens, and how that server is known."""


def login(jaas: str) -> dict[str, str]:
    """Return the settings that a `sasl.jaas.config` contains. Raises ValueError, which quotes none of it."""
    match = _LOGIN.fullmatch(jaas)
    if match is None:
        raise ValueError('a string of the form `<login module> required username="…" password="…";` is expected')
    module = match["module"]
    if module not in _LOGIN_MODULES:
        raise ValueError(f"the login module {module} has no counterpart here: use {_MODULE_NAMES}")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare
        for name, quoted, bare in _OPTION.findall(match["options"])
    }
    if _LOGIN_MODULES[module] == oauth_tokens.MECHANISM:
        return _token_login(options)
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise ValueError(f"it must contain {' and '.join(missing)}")
    unknown = sorted(options.keys() - {"username", "password"})
    if unknown:
        raise ValueError(f"its option {unknown[0]} has no counterpart here")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


_TOKEN_OPTIONS: Final = {
    "clientId": oauth_tokens.CLIENT_ID,
    "clientSecret": oauth_tokens.CLIENT_SECRET,
    "scope": oauth_tokens.SCOPE,
}
_EXTENSION: Final = "extension_"


def _token_login(options: Mapping[str, str]) -> dict[str, str]:
    """Newer clients have settings of their own for all of these, so that none is required."""
    extensions = {name: value for name, value in options.items() if name.startswith(_EXTENSION)}
    unknown = sorted(options.keys() - extensions.keys() - _TOKEN_OPTIONS.keys())
    if unknown:
        raise ValueError(f"its option {unknown[0]} has no counterpart here")
    settings = {to: options[name] for name, to in _TOKEN_OPTIONS.items() if options.get(name)}
    if extensions:
        text = ",".join(f"{name.removeprefix(_EXTENSION)}={value}" for name, value in extensions.items())
        oauth_tokens.parse_extensions(text)
        settings[oauth_tokens.EXTENSIONS] = text
    return settings


def find_replaced(over: Mapping[str, str]) -> set[str]:
    """Return the settings of a layer below that these replace as a whole: a login with a part of another one would be
    wrong, and a secret must not be sent to another token endpoint than its own.
    """
    if any(name in over for name in _TOLD):
        return {*_LOGINS, *_TOLD}
    return set(_LOGINS) if "sasl.jaas.config" in over or any("oauthbearer.client" in name for name in over) else set()


def fits(jaas: str, mechanism: str) -> bool:
    """Return whether the login module belongs to the mechanism."""
    match = _LOGIN.fullmatch(jaas)
    return match is None or mechanism.upper().startswith(_LOGIN_MODULES.get(match["module"], ""))


def stores(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return librdkafka's settings for Java's key store and trust store, and an error per setting without a
    counterpart.

    Only the type PEM is supported: a file, or the text itself.
    """
    settings: dict[str, str] = {}
    errors: dict[str, str] = {}
    for store, texts, files in (
        ("ssl.truststore", {"certificates": "ssl.ca.pem"}, ("ssl.ca.location",)),
        (
            "ssl.keystore",
            {"key": "ssl.key.pem", "certificate.chain": "ssl.certificate.pem"},
            ("ssl.key.location", "ssl.certificate.location"),
        ),
    ):
        names = [f"{store}.{end}" for end in ("location", "password", *texts)]
        present = [name for name in names if name in config]
        kind = config.get(f"{store}.type", "JKS").upper()
        if kind != "PEM":
            wrong = f"{store}.type" if f"{store}.type" in config else (present or [""])[0]
            if wrong:
                errors[wrong] = f"only {store}.type=PEM has a counterpart here: convert the store to PEM"
            continue
        if f"{store}.password" in config:
            errors[f"{store}.password"] = "a PEM store has no password; a key's own is ssl.key.password"
        for end, name in texts.items():
            if f"{store}.{end}" in config:
                settings[name] = config[f"{store}.{end}"]
        if f"{store}.location" in config:
            settings.update(dict.fromkeys(files, config[f"{store}.location"]))
    return settings, errors


def overlay(base: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """Merge librdkafka settings: a key given as text replaces one given as a file, and a login one that is there."""
    replaced = find_replaced(over)
    result = {name: value for name, value in base.items() if name not in replaced}
    for pair in _EITHER:
        if any(name in over for name in pair):
            for name in pair:
                result.pop(name, None)
    return {**result, **over}
