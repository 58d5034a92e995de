"""What has to be done so that a server holds what files ask for (`desired`), shown first, and then carried out.

Only the server can compare what is masked, so it is asked: nothing here knows a stored secret, and none is shown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ringfence.client import documents
from ringfence.client.desired import Connector, Desired, Grant
from ringfence.client.documents import HIDDEN
from ringfence.client.output import ClientError, Exit, escape, exit_of
from ringfence.client.rest import Rest, segment

_BATCH: Final = 100
"""Connectors of one request: so many configurations stay below the server's limit of a body."""
_REACHED: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}
Act = Callable[[Rest], None]


class Sign(StrEnum):
    CREATE = "+"
    CHANGE = "~"
    REMOVE = "-"


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a plan. stops: why no records flow afterwards, or none for a moment, "" if they flow on.

    act: carries it out; raises `ClientError`.
    """

    sign: Sign
    what: str
    act: Act
    lines: Sequence[str] = ()
    stops: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """changes: in the order in which they are carried out; errors: what cannot be, by the server's words."""

    changes: Sequence[Change]
    errors: Sequence[tuple[str, Exit, str]]
    unchanged: int

    def show(self) -> list[str]:
        """Return the lines for people."""
        lines = []
        for change in self.changes:
            lines.append(f"{change.sign} {change.what}" + (f"   ! {change.stops}" if change.stops else ""))
            lines += [f"    {line}" for line in change.lines]
        lines += [f"x {what}: {message}" for what, _, message in self.errors]
        lines = [escape(line) for line in lines]  # a value of several lines could forge others of the plan
        counts = {sign: sum(change.sign is sign for change in self.changes) for sign in Sign}
        stops = sum(bool(change.stops) for change in self.changes)
        lines.append(
            f"Plan: {counts[Sign.CREATE]} to create, {counts[Sign.CHANGE]} to change, {counts[Sign.REMOVE]} to remove, "
            f"{self.unchanged} unchanged"
            + (f"; {stops} of them stop or interrupt records (!)" if stops else "")
            + (f"; {len(self.errors)} cannot be carried out (x)" if self.errors else "")
            + "."
        )
        return lines


class _Builder:
    def __init__(self, rest: Rest, desired: Desired, *, prune: bool) -> None:
        self._rest = rest
        self._desired = desired
        self._prune = prune
        self.changes: list[Change] = []
        self.removals: list[Change] = []
        self.errors: list[tuple[str, Exit, str]] = []
        self.unchanged = 0

    def add(self, sign: Sign, what: str, act: Act, lines: Sequence[str] = (), stops: str = "") -> None:
        place = self.removals if sign is Sign.REMOVE else self.changes
        place.append(Change(sign, what, act, lines, stops))

    # Alert destinations, rules and grants: rows of the API, compared field by field.

    def destinations(self) -> None:
        path = "/api/v1/alerts/destinations"
        rows = {row["name"]: row for row in self._rest.get_rows(path)}
        for name, target in self._desired.destinations.items():
            what, row = f"alert destination {name}", rows.get(name)
            if row is None:
                self.add(Sign.CREATE, what, _sends("POST", path, target), _fields({}, _mask(target)))
                continue
            body = {**target, "url": target["url"] or row["url"], "secret": target["secret"] or HIDDEN}
            try:
                differs = self._rest.call("PUT", f"{path}/{row['id']}", body, dry_run="true")["differs"]
            except ClientError as error:
                self.errors.append((what, Exit(error.code), str(error)))
                continue
            if differs:
                lines = _fields(row, _mask(body)) or ["~ a hidden value"]
                self.add(Sign.CHANGE, what, _sends("PUT", f"{path}/{row['id']}", body), lines)
            else:
                self.unchanged += 1
        self._remove_rows(path, rows, self._desired.destinations, "alert destination")

    def rules(self) -> None:
        path = "/api/v1/alerts/rules"
        rows = {row["name"]: row for row in self._rest.get_rows(path)}
        for name, target in self._desired.rules.items():
            what, row = f"alert rule {name}", rows.get(name)
            lines = _fields(row or {}, target)
            if row is None:
                self.add(Sign.CREATE, what, _sends("POST", path, target), lines)
            elif lines:
                self.add(Sign.CHANGE, what, _sends("PUT", f"{path}/{row['id']}", target), lines)
            else:
                self.unchanged += 1
        self._remove_rows(path, rows, self._desired.rules, "alert rule")

    def grants(self) -> None:
        path = "/api/v1/grants"
        rows = {
            (row["account"], frozenset(row["allow"]), row["pattern"]): row
            for row in self._rest.get_rows(path)
            if not row["by_groups"]
        }
        for key, grant in self._desired.grants.items():
            row = rows.get(key)
            target = {"topics": list(grant.topics), **grant.quotas}
            lines = _fields(row or {}, target)
            # The stored order of roles: another order would be another grant.
            body = {"account": grant.account, "allow": row["allow"] if row else list(grant.allow)}
            body |= {"pattern": grant.pattern, **target}
            if row is None:
                self.add(Sign.CREATE, _name_of(grant), _sends("POST", path, body), lines)
            elif lines:
                narrower = not set(row["topics"]) <= set(grant.topics) and "*" not in grant.topics
                stops = "tasks that write to other topics fail" if narrower else ""
                self.add(Sign.CHANGE, _name_of(grant), _sends("POST", path, body), lines, stops)
            else:
                self.unchanged += 1
        rows_by_name = {f"{row['account']}: {' '.join(row['allow'])} on {row['pattern']}": row for row in rows.values()}
        remaining = {name for name, row in rows_by_name.items() if _key(row) in self._desired.grants}
        self._remove_rows(
            path, rows_by_name, remaining, "grant to", "connectors that the account saved lose its topics"
        )

    def _remove_rows(
        self, path: str, rows: Mapping[str, Any], target: Iterable[str], what: str, stops: str = ""
    ) -> None:
        for name in sorted(rows.keys() - set(target)) if self._prune else ():
            self.add(Sign.REMOVE, f"{what} {name}", _sends("DELETE", f"{path}/{rows[name]['id']}"), stops=stops)

    # Connectors: the server compares configurations, as it knows the secrets.

    def connectors(self) -> None:
        rows = {row["name"]: row for row in self._rest.get_rows("/api/v1/connectors")}
        target = list(self._desired.connectors.values())
        for first in range(0, len(target), _BATCH):
            batch = target[first : first + _BATCH]
            for connector, result in zip(batch, self._compare(batch), strict=True):
                self._connector(connector, rows.get(connector.name), result)
        for name in sorted(rows.keys() - self._desired.connectors.keys()) if self._prune else ():
            stops = "" if rows[name]["target"] == "STOPPED" else "its records end"
            self.add(Sign.REMOVE, f"connector {name}", _sends("DELETE", f"/connectors/{segment(name)}"), stops=stops)

    def _compare(self, batch: Sequence[Connector]) -> list[Any]:
        import json

        text = json.dumps([{"name": each.name, "config": each.config} for each in batch])
        body = {"format": "json", "text": text, "dry_run": True}
        results = {row["connector"]: row for row in self._rest.call("POST", "/api/v1/import", body)["results"]}
        return [results[each.name] for each in batch]

    def _connector(self, target: Connector, row: Any, result: Any) -> None:
        what = f"connector {target.name}"
        if not result["ok"]:
            self.errors.append((what, exit_of(result["status"]), result["message"]))
            return
        is_same = result["message"] == "unchanged"
        path = f"/connectors/{segment(target.name)}"
        if row is None:
            state = target.state or "RUNNING"
            body = {"name": target.name, "config": target.config, "initial_state": state}
            lines = documents.difference({}, hide_secrets(self._rest, target.config, {}))
            self.add(Sign.CREATE, f"{what} ({state.lower()})", _sends("POST", "/connectors", body), lines)
            return
        moves = bool(target.state) and target.state != row["target"]
        if is_same and not moves:
            self.unchanged += 1
            return
        lines = [] if is_same else self._differences(path, target.config)
        acts = [] if is_same else [_sends("PUT", f"{path}/config", target.config)]
        stops = "" if is_same or row["target"] != "RUNNING" else "its tasks start again"
        if moves:
            lines = [f"~ state: {row['target'].lower()} -> {target.state.lower()}", *lines]
            acts.append(_sends("PUT", f"{path}/{_REACHED[target.state]}"))
            if target.state != "RUNNING":
                acts.reverse()  # nothing runs with the new configuration
                stops = "its records stop" if row["target"] == "RUNNING" else ""
        self.add(Sign.CHANGE, what, _all(acts), lines, stops)

    def _differences(self, path: str, config: dict[str, str]) -> list[str]:
        stored = self._rest.call("GET", f"{path}/config")
        return documents.difference(stored, hide_secrets(self._rest, config, stored)) or ["~ a hidden value"]


def hide_secrets(rest: Rest, config: dict[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration without secrets: what the plugin or the server says is one, and what neither knows.

    stored: as the server shows it, {} if there is none.
    """
    path = f"/connector-plugins/{segment(config.get('connector.class', ''))}/config/validate"
    entries = rest.call("PUT", path, config)["configs"]
    public = {
        entry["value"]["name"]
        for entry in entries
        if entry["definition"]["type"] != "PASSWORD" and entry["value"]["value"] != HIDDEN
    }
    public |= {"name", "connector.class"} | {key for key, value in stored.items() if value != HIDDEN}
    return {key: value if key in public else HIDDEN for key, value in config.items()}


def make(rest: Rest, desired: Desired, *, prune: bool) -> Plan:
    """Compare with the server, and change nothing. prune: remove what no file names, of the kinds that occur in files.

    Raises `ClientError`, also where the caller may not see what is compared.
    """
    builder = _Builder(rest, desired, prune=prune)
    steps = {
        "AlertDestination": builder.destinations,
        "AlertRule": builder.rules,
        "Grant": builder.grants,
        "Connector": builder.connectors,
    }
    for kind, step in steps.items():
        if kind in desired.kinds:
            step()
    # A rule needs its destinations, so those go last.
    return Plan([*builder.changes, *reversed(builder.removals)], builder.errors, builder.unchanged)


def _sends(method: str, path: str, body: object = None) -> Act:
    def act(rest: Rest) -> None:
        rest.call(method, path, body)

    return act


def _all(acts: Sequence[Act]) -> Act:
    def act(rest: Rest) -> None:
        for each in acts:
            each(rest)

    return act


def _fields(row: Mapping[str, Any], target: Mapping[str, Any]) -> list[str]:
    """Return a line for each field that differs; lists are sets."""
    lines = []
    for name, value in target.items():
        if name == "name":
            continue
        if not row:
            lines += [f"+ {name} = {_text(value)}"] if value not in (None, "", []) else []
        elif _text(row.get(name)) != _text(value):
            lines.append(f"~ {name} = {_text(row.get(name))} -> {_text(value)}")
    return lines


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(sorted(map(str, value)))
    return "default" if value is None else str(value)


def _mask(destination: Mapping[str, Any]) -> dict[str, Any]:
    """Return the destination without its secret, and of its address only what the server shows."""
    from urllib.parse import urlsplit

    parts = urlsplit(destination["url"])
    port = f":{parts.port}" if parts.port else ""
    url = f"{parts.scheme}://{parts.hostname}{port}/{HIDDEN}" if destination["url"] else ""
    return {**destination, "url": url, "secret": HIDDEN if destination["secret"] else ""}


def _key(row: Mapping[str, Any]) -> tuple[str, frozenset[str], str]:
    return row["account"], frozenset(row["allow"]), row["pattern"]


def _name_of(grant: Grant) -> str:
    return f"grant to {grant.account}: {' '.join(grant.allow)} on {grant.pattern}"
