"""Changes to a configuration's transforms: add, remove, move, limit to some records. Pure: config in, config out."""

import re
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.transforms.registry import aliases
from ringfence.http.errors import bad_request
from ringfence.web.new import transform_predicates

LIST: Final = "transforms"


def change_steps(config: Mapping[str, str], command: str) -> dict[str, str]:
    """Apply `add:<type>`, `remove:<alias>`, `up:<alias>`, `down:<alias>` or `move:<index>:<alias>`; or
    `only:<type>:<alias>`, `share:<predicate>:<alias>` or `widen:<alias>`, which select the records. Raises a 400 for
    other commands.
    """
    verb, _, rest = command.partition(":")
    if verb == "add":
        return _add(config, rest.strip())
    names = aliases(config, LIST)
    argument, _, alias = rest.partition(":") if verb in ("move", "only", "share") else ("", "", rest)
    if alias not in names:
        raise bad_request(f"There is no transform {alias} any more.")
    if verb in ("only", "share", "widen"):
        return _choose_records(config, verb, argument.strip(), alias)
    here = names.index(alias)
    targets = {"up": here - 1, "down": here + 1}
    if verb == "remove":
        return _remove(config, names, alias)
    if verb == "move" and argument.isascii() and argument.isdigit() and len(argument) < 6:
        targets["move"] = int(argument)
    if verb not in targets:
        raise bad_request("A transform is added, removed or moved.")
    names.remove(alias)
    names.insert(max(0, min(targets[verb], len(names))), alias)
    return {**config, LIST: ",".join(names)}


def _choose_records(config: Mapping[str, str], verb: str, argument: str, alias: str) -> dict[str, str]:
    if verb == "widen":
        return transform_predicates.widen(config, alias)
    if verb == "share":
        if argument not in aliases(config, transform_predicates.LIST):
            raise bad_request(f"There is no predicate {argument} any more.")
        return transform_predicates.share(transform_predicates.widen(config, alias), alias, argument)
    if argument not in {kind.type for kind in transform_predicates.KINDS}:
        raise bad_request("There is no such predicate.")
    return transform_predicates.limit(transform_predicates.widen(config, alias), alias, argument)


def _add(config: Mapping[str, str], type_: str) -> dict[str, str]:
    names = aliases(config, LIST)
    alias = _free_alias(config, type_)
    more = {f"{LIST}.{alias}.type": type_} if type_ else {}
    return {**config, LIST: ",".join([*names, alias]), **more}


def _remove(config: Mapping[str, str], names: list[str], alias: str) -> dict[str, str]:
    """Remove a transform with its settings, and with its predicate unless another transform uses it."""
    config = transform_predicates.widen(config, alias)
    remaining = [name for name in names if name != alias]
    rest = {key: value for key, value in config.items() if key != LIST and not key.startswith(f"{LIST}.{alias}.")}
    return {**rest, LIST: ",".join(remaining)} if remaining else rest


def _free_alias(config: Mapping[str, str], type_: str) -> str:
    """Return `maskField` for MaskField$Value; with a number if that is taken, even by leftover settings."""
    simple = re.sub(r"[^A-Za-z0-9]", "", type_.rpartition(".")[2].partition("$")[0]) or "transform"
    name = simple[0].lower() + simple[1:]
    used_names = {*aliases(config, LIST), *(key.split(".")[1] for key in config if key.startswith(f"{LIST}."))}
    return next(free for n in range(1, 10_000) if (free := name if n == 1 else f"{name}{n}") not in used_names)
