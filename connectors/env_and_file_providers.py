"""The config providers for environment variables, properties files and folders of files."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ringfence.connectors import properties
from ringfence.connectors.api.config_types import ConfigException

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
