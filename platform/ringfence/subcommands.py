"""Subcommands whose own `--help` begins with their description in the list of commands."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(parsers: "Subparsers", name: str, about: str) -> argparse.ArgumentParser:
    """Add a subcommand. about: without an initial capital letter and a full stop."""
    return parsers.add_parser(name, help=about, description=sentence(about))


def sentence(about: str) -> str:
    """Add an initial capital letter and a full stop. Percent signs and names stay as they are."""
    return f"{about[:1].upper()}{about[1:]}."
