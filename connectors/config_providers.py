"""Values stored elsewhere: `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}` in a configuration (KIP-297).

The worker names its providers as for Kafka Connect: `config.providers=file`, `config.providers.file.class=…`,
`config.providers.file.param.allowed.paths=…`. Only the process that runs the plugin resolves them; the references are
stored and shown.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ringfence.connectors.api.config_types import HIDDEN, ConfigException
from ringfence.connectors.sdk import properties

_OURS: Final = ("RINGFENCE_", "CONNECT_")
"""Variables with the platform's own settings, including passwords: no provider returns these."""


def environment(pattern: str, prefix: str) -> Callable[[str, str], str]:
    """Return the lookup of environment variables. Without a pattern none is allowed, since other users write
    configurations.
    """
    try:
        allowed = re.compile(pattern)
    except re.error as error:
        raise ConfigException(f"allowlist.pattern={pattern} is not a regular expression: {error}") from error

    def value(path: str, key: str) -> str:
        if path:
            raise ConfigException("an environment variable is written ${env:NAME}, without a path")
        if not pattern:
            raise ConfigException(
                f"the worker allows no variables: set {prefix}param.allowlist.pattern, a regular expression for the "
                "allowed names"
            )
        if key.startswith(_OURS):
            raise ConfigException(f"the variable {key} is a setting of the platform, which connectors may not read")
        if not allowed.fullmatch(key):
            raise ConfigException(f"the variable {key} is not in the worker's allowlist.pattern")
        if key not in os.environ:
            raise ConfigException(f"the worker has no environment variable {key}")
        return os.environ[key]

    return value


def path_checker(paths: list[str], prefix: str) -> Callable[[str], Path]:
    """Return a function that returns the real path, or raises `ConfigException` if it is outside of `paths`.

    Without paths nothing is allowed: Kafka Connect allows all files, which lets an editor read the worker's keys.
    """
    roots = [Path(path) for path in paths]
    for root in roots:
        if not root.is_absolute():
            raise ConfigException(f"allowed.paths names {root}, which is not an absolute path")
    real_roots = [root.resolve() for root in roots]

    def real(path: str) -> Path:
        if not path:
            raise ConfigException("a path is needed")
        resolved = Path(path).resolve()
        if not real_roots:
            raise ConfigException(
                f"the worker allows no files: set {prefix}param.allowed.paths, the folders with the values"
            )
        if not any(resolved.is_relative_to(root) for root in real_roots):
            raise ConfigException(f"{path} is not below the worker's allowed.paths")
        return resolved

    return real


def read_property(real: Callable[[str], Path]) -> Callable[[str, str], str]:
    def value(path: str, key: str) -> str:
        try:
            values = properties.read(read_file(real(path)), bare=True)
        except properties.MalformedLine as error:
            raise ConfigException(f"{path} {error}") from error
        if key not in values:
            raise ConfigException(f"{path} has no line {key}=…")
        return values[key]

    return value


def within(real: Callable[[str], Path]) -> Callable[[str, str], Path]:
    def place(path: str, key: str) -> Path:
        if not key or key in (".", "..") or "/" in key:
            raise ConfigException(f"{key!r} is not a file of the directory {path}")
        return real(f"{real(path)}/{key}")

    return place


def read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigException(f"{path} cannot be read ({type(error).__name__})") from error


PREFIX: Final = "config.providers"
PROVIDERS: Final = "RINGFENCE_CONFIG_PROVIDERS"
"""The environment variable that passes the worker's `config.providers*` settings to plugin processes, as JSON."""
_JAVA: Final = "org.apache.kafka.common.config.provider."
_SHORT: Final = 4
"""Shorter values are too common to be searched for in other strings."""


@dataclass(frozen=True, slots=True)
class Provider:
    """`value(path, key)`, and the file that contains it, if any. Both raise `ConfigException`, which
    contains no value.
    """

    value: Callable[[str, str], str]
    file: Callable[[str, str], Path] | None = None


@dataclass(frozen=True)
class ResolvedConfig:
    """A configuration as the plugin sees it. raw: as it is stored. secret_values: of each reference."""

    raw: Mapping[str, str]
    config: dict[str, str]
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def hide(self, text: str) -> str:
        """Return the text without any value from a provider."""
        for value in sorted(filter(None, self.secret_values.values()), key=len, reverse=True):
            if len(value) >= _SHORT:
                text = text.replace(value, HIDDEN)
        return text

    def restore_references(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration that a plugin returned, with references instead of their values."""
        result = {}
        for key, value in config.items():
            if key in self.raw and value == self.config.get(key):
                result[key] = self.raw[key]
                continue
            for reference, secret in sorted(self.secret_values.items(), key=lambda item: len(item[1]), reverse=True):
                if len(secret) >= _SHORT:
                    value = value.replace(secret, reference)
            result[key] = value
        return result


class ConfigProviders:
    """The providers of a worker. Raises `ConfigException` for invalid settings."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """settings: the worker's; without `config.providers` in them, references are plain text."""
        own_settings = settings or {}
        names = [name.strip() for name in own_settings.get(PREFIX, "").split(",") if name.strip()]
        self._providers = {name: _provider(name, own_settings) for name in names}

    @staticmethod
    def settings_of(settings: Mapping[str, str]) -> dict[str, str]:
        """Return those settings of a worker that configure providers."""
        return {key: value for key, value in settings.items() if key == PREFIX or key.startswith(PREFIX + ".")}

    def files(self, config: Mapping[str, str]) -> list[Path]:
        """Return the files with the values of this configuration, without files that must not be read."""
        paths = set()
        for reference in (reference for value in config.values() for reference in _references(value)):
            provider = self._providers.get(reference.provider)
            if provider is not None and provider.file is not None:
                with suppress(ConfigException):
                    paths.add(provider.file(reference.path, reference.key))
        return sorted(paths)

    def resolve(self, config: Mapping[str, str]) -> ResolvedConfig:
        """Replace every reference by its value, once. Raises `ConfigException`, which names setting and reference."""
        resolved, errors = self.attempt(config)
        for error in errors.values():
            raise ConfigException(error)
        return resolved

    def attempt(self, config: Mapping[str, str]) -> tuple[ResolvedConfig, dict[str, str]]:
        """Do the same, and return the error of each setting that could not be resolved; such a setting
        keeps its text.
        """
        secrets: dict[str, str] = {}
        errors: dict[str, str] = {}
        result: dict[str, str] = {}

        def replace(value: str) -> str:
            pieces, end = [], 0
            for reference in _references(value):
                provider = self._providers.get(reference.provider)
                if provider is not None:
                    secret = provider.value(reference.path, reference.key)
                    secrets[value[reference.start : reference.end]] = secret
                    pieces += [value[end : reference.start], secret]
                    end = reference.end
            return "".join([*pieces, value[end:]])

        for key, value in config.items():
            try:
                result[key] = replace(value)
            except ConfigException as error:
                errors[key] = f"Invalid value {value} for configuration {key}: {error}"
                result[key] = value
        return ResolvedConfig(dict(config), result, secrets), errors


class _Reference(NamedTuple):
    """`${provider:path:key}` or `${provider:key}` in a text, from `start` to before `end`."""

    start: int
    end: int
    provider: str
    path: str
    key: str


def _references(text: str) -> Iterator[_Reference]:
    """Find what Kafka's `\\$\\{([^}]*?):(([^}]*?):)?([^}]*?)\\}` finds, in linear time: the text is any editor's."""
    begin = 0
    while (end := text.find("}", begin)) >= 0:
        start = text.find("${", begin, end)
        colon = text.find(":", start + 2, end) if start >= 0 else -1
        if colon >= 0:
            path, separator, key = text[colon + 1 : end].partition(":")
            where = (path, key) if separator else ("", path)
            yield _Reference(start, end + 1, text[start + 2 : colon], *where)
        begin = end + 1


def _provider(name: str, settings: Mapping[str, str]) -> Provider:
    prefix = f"{PREFIX}.{name}."
    class_name = settings.get(prefix + "class", "").strip()
    paths = [path.strip() for path in settings.get(prefix + "param.allowed.paths", "").split(",") if path.strip()]
    match class_name.removeprefix(_JAVA):
        case "EnvVarConfigProvider":
            return Provider(environment(settings.get(prefix + "param.allowlist.pattern", ""), prefix))
        case "FileConfigProvider":
            real = path_checker(paths, prefix)
            return Provider(read_property(real), lambda path, _key: real(path))
        case "DirectoryConfigProvider":
            place = within(path_checker(paths, prefix))
            return Provider(lambda path, key: read_file(place(path, key)), place)
        case _:
            names = ", ".join(f"{_JAVA}{kind}ConfigProvider" for kind in ("EnvVar", "File", "Directory"))
            raise ConfigException(f"{prefix}class={class_name} is not a known config provider: use one of {names}")
