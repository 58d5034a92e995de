"""Parses pasted text: JSON in either shape, properties, YAML or a curl command. Commands are never run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from ringfence.api.base import config_of, object_of, read, text_of
from ringfence.api.v1 import transfer
from ringfence.connectors.sdk import properties
from ringfence.http.errors import bad_request

_DATA: Final = ("--data-raw", "--data-binary", "--data-ascii", "--data", "--json", "-d")
_YAML: Final = re.compile(r"^(- )?(name|config|connector\.class):(\s|$)", re.MULTILINE)
_IN_PATH: Final = re.compile(r"/connectors/([^/]+)(/config)?/?$")


@dataclass(frozen=True, slots=True)
class PastedConfig:
    """text_format: how the text was interpreted, in words."""

    name: str
    config: dict[str, str]
    text_format: str


def read_pasted(text: str) -> PastedConfig:
    """Parse one connector. Raises a 400 that names the expected formats."""
    paste = text.strip()
    if len(paste) > transfer.MOST_BYTES:
        raise bad_request(f"The text has more than {transfer.MOST_BYTES:,} characters: no connector is that large.")
    if not paste:
        raise bad_request("Nothing was pasted: JSON, properties or a curl command is expected.")
    if re.match(r"(\$ +)?curl\s", paste):
        return _curl(paste.removeprefix("$").strip())
    if paste[0] in "{[":
        return _json(paste, "")
    if _YAML.search(paste):
        return _parse_list(transfer.parse(paste, "yaml"), "YAML")
    try:
        config = properties.read(paste)
    except properties.MalformedLine as error:
        raise bad_request(
            f"This is neither JSON nor a curl command, and as properties {error}. Paste one of these."
        ) from error
    return PastedConfig(config.get("name", "").strip(), config, "properties")


def _json(text: str, name: str) -> PastedConfig:
    """Parse JSON. name: from the address of a curl command, if any."""
    value = read(text.encode("utf-8", "replace"), "The text")
    if isinstance(value, list):
        if len(value) != 1:
            raise bad_request(f"The list contains {len(value)} connectors. Paste one; an import accepts several.")
        value = value[0]
    body = object_of(value, "What was pasted")
    if isinstance(body.get("config"), dict):
        config = config_of(body["config"])
        own_name = text_of(body.get("name") or config.get("name", ""), "name").strip()
        return PastedConfig(own_name or name, config, 'JSON with "name" and "config"')
    config = config_of(body)
    return PastedConfig(config.get("name", "").strip() or name, config, "JSON with the settings alone")


def _parse_list(configs: list[dict[str, str]], word: str) -> PastedConfig:
    if len(configs) != 1:
        raise bad_request(f"There are {len(configs)} connectors. Paste one; an import accepts several.")
    return PastedConfig(configs[0].get("name", ""), configs[0], word)


def _curl(text: str) -> PastedConfig:
    try:
        words = shlex.split(re.sub(r"[\\^]\r?\n", " ", text))[1:]
    except ValueError as error:
        raise bad_request(f"The curl command cannot be read ({error}). Paste it whole, with its quotes.") from error
    bodies = list(_bodies(words))
    if not bodies:
        raise bad_request("The curl command sends no body: it needs -d or --data with the JSON.")
    body = "&".join(bodies)
    if body.startswith("@"):
        raise bad_request(f"The curl command reads its body from the file {body[1:]}. Paste the file's content.")
    paths = [urlsplit(word).path for word in words if "://" in word or "/connectors" in word]
    match = _IN_PATH.search(paths[0]) if paths else None
    content = _json(body, unquote(match[1]) if match else "")
    return PastedConfig(content.name, content.config, f"a curl command that sends {content.text_format}")


def _bodies(words: list[str]) -> Iterator[str]:
    for number, word in enumerate(words):
        for flag in _DATA:
            if word == flag and number + 1 < len(words):
                yield words[number + 1]
            elif word.startswith(f"{flag}=") and flag.startswith("--"):
                yield word.removeprefix(f"{flag}=")
            elif flag == "-d" and word.startswith("-d") and len(word) > 2 and not word.startswith("--"):
                yield word[2:]
            else:
                continue
            break
