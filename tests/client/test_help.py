"""`--help` of every command: it says what the command does and what each argument means."""

import argparse
import re
from collections.abc import Iterator

import pytest

from ringfence import cli

Commands = argparse._SubParsersAction


def walk(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, Commands):
            for name, below in action.choices.items():
                yield from walk(f"{path} {name}", below)


def find(name: str) -> argparse.ArgumentParser:
    (commands,) = (action for action in cli.parser_for([name])._actions if isinstance(action, Commands))
    found = commands.choices[name]
    assert isinstance(found, argparse.ArgumentParser)
    return found


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_commands_and_arguments_are_explained(command: cli.Command) -> None:
    for path, parser in walk(command.name, find(command.name)):
        described = parser.description or ""
        assert described[:1].isupper(), path
        assert described.endswith("."), path
        assert not re.search(r"\b(rest|json|spark|kafka|kubernetes)\b", described), f"{path}: names keep their capitals"
        unexplained = [
            action.option_strings or action.metavar or action.dest
            for action in parser._actions
            if not action.help and not isinstance(action, Commands)
        ]
        assert unexplained == [], path
        parser.format_help()
