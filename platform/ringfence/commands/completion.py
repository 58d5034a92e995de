"""`ringfence completion`: prints a completion script for the shell, which calls this command for the possible words."""

import argparse
from collections.abc import Sequence

from ringfence.client import rest
from ringfence.client.rest import Rest
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

_NAMES_SECONDS = 1.0

SCRIPTS = {
    "bash": """_ringfence() {
    local IFS=$'\\n'
    local found="$(ringfence completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _ringfence ringfence
""",
    "zsh": """#compdef ringfence
_ringfence() {
    local -a found
    found=(${(f)"$(ringfence completion words -- ${words[2,$CURRENT]} 2>/dev/null)"})
    compadd -a found || _files
}
compdef _ringfence ringfence
""",
    "fish": """function __ringfence
    set -l before (commandline -opc)
    ringfence completion words -- $before[2..-1] (commandline -ct) 2>/dev/null
end
complete -c ringfence -a '(__ringfence)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shells = parser.add_subparsers(title="shells", dest="shell", required=True, metavar="SHELL")
    add_command(shells, "bash", 'eval "$(ringfence completion bash)" in ~/.bashrc')
    add_command(shells, "zsh", 'eval "$(ringfence completion zsh)" in ~/.zshrc, after compinit')
    add_command(shells, "fish", "ringfence completion fish > ~/.config/fish/completions/ringfence.fish")
    add_command(shells, "words", "words that may follow; the scripts call this").add_argument(
        "words", nargs="*", help="the words before the cursor"
    )


def run(args: argparse.Namespace) -> int:
    """Print the script, or the possible words."""
    print("\n".join(following(args.words)) if args.shell == "words" else SCRIPTS[args.shell], end="")
    return 0


def following(words: Sequence[str]) -> list[str]:
    """Return the completions of the last word, which may be empty or incomplete."""
    from ringfence import cli  # imported here, because it imports this module

    *before, prefix = words or [""]
    parser = cli.parser_for(before)
    for word in before:
        choices = _choices(parser)
        if word in choices:
            parser = choices[word]
    choices = _choices(parser)
    candidates = list(choices) or _names(parser)
    if prefix.startswith("-") or not candidates:
        candidates = [
            option for action in parser._actions for option in action.option_strings if option.startswith("--")
        ]
    return [word for word in candidates if word.startswith(prefix)]


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _names(parser: argparse.ArgumentParser) -> list[str]:
    """Return the server's connectors, if the command takes one and the server answers quickly."""
    if not any(action.metavar == "CONNECTOR" for action in parser._actions):
        return []
    try:
        names = Rest(rest.server(None, None), timeout=_NAMES_SECONDS).call("GET", "/connectors")
    except LocalError:
        return []  # completion has no way to show an error
    return [str(name) for name in names]
