"""Subcommands whose own `--help` begins with what the list of commands says of them."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(parsers: "Subparsers", name: str, about: str) -> argparse.ArgumentParser:
    """One more subcommand; `about` without a capital letter and a full stop."""
    return parsers.add_parser(name, help=about, description=sentence(about))


def sentence(about: str) -> str:
    """With a capital letter and a full stop. Percent signs and names in it stay as they are."""
    return f"{about[:1].upper()}{about[1:]}."
