"""Creating and changing rules and destinations, for pages and API. Raises ValueError with a message for the user.

The forms of the pages only read values: they are validated here, like the API's input.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from ringfence.alerts import deliveries, ssrf_guard
from ringfence.alerts.conditions import Kind
from ringfence.alerts.models import Delivery, Destination, Rule, now_ms
from ringfence.alerts.senders import CHANNELS, RECIPIENTS, SECRET, URL, Channel, allowed_addresses, trial_message
from ringfence.connectors.api.config_types import HIDDEN

LONGEST_SECONDS = 7 * 24 * 3600
_MOST_RECIPIENTS = 20
_SHORTEST_SECRET = 16
_KEY = re.compile(r"[\x21-\x7e]+")
"""Of a receiver: it is sent as a header."""


@dataclass(frozen=True, slots=True)
class NewDestination:
    """A destination with its generated secret, which is shown only now; "" if none was generated."""

    row: Destination
    secret: str = ""


def describe_rule(row: Rule) -> dict[str, Any]:
    """Return the format of API and audit trail."""
    names = sorted(one.name for one in row.destinations.all())
    fields = ("name", "kind", "pattern", "seconds", "enabled")
    return {"id": row.pk, **{name: getattr(row, name) for name in fields}, "destinations": names}


def describe_destination(row: Destination) -> dict[str, Any]:
    """Return the format of API and audit trail, without the path of the address and the secret."""
    recipients = _recipients(row.recipients)
    secret = HIDDEN if row.secret else ""
    return {
        "id": row.pk, "name": row.name, "kind": row.kind, "url": row.shown_url, "secret": secret,
        "recipients": recipients, "enabled": row.enabled,
    }  # fmt: skip


def save_rule(values: Mapping[str, Any], row: Rule | None = None) -> Rule:
    """Save a new rule, or replace all fields of an existing one."""
    row = row or Rule()
    row.name = _name(values, Rule, row.pk)
    row.kind = _one_of(values.get("kind"), [kind.value for kind in Kind], "kind")
    row.pattern = _text(values.get("pattern", "*"), "pattern", 300)
    row.seconds = _seconds(values.get("seconds", 60))
    row.enabled = _flag(values.get("enabled", True))
    names = values.get("destinations", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("destinations must be a list of their names")
    destinations = list(Destination.objects.filter(name__in=names))
    if missing := sorted(set(names) - {one.name for one in destinations}):
        raise ValueError(f"There is no destination {', '.join(missing)}: create it first")
    with transaction.atomic():
        row.save()
        row.destinations.set(destinations)
    return row


def save_destination(values: Mapping[str, Any], row: Destination | None = None) -> NewDestination:
    """Save a new destination, or replace all fields of an existing one. A masked address or secret keeps
    the stored value.
    """
    row = row or Destination()
    new_secret = _fill(row, values)
    row.save()
    return NewDestination(row, new_secret)


def differs(values: Mapping[str, Any], row: Destination) -> bool:
    """Return whether `save_destination` would change a field of the row, what is masked included. Saves nothing."""
    fields = ("name", "kind", "url", "secret", "recipients", "enabled")
    before = [getattr(row, name) for name in fields]
    _fill(row, values)
    return [getattr(row, name) for name in fields] != before


def _fill(row: Destination, values: Mapping[str, Any]) -> str:
    """Set all fields; return the secret that was generated, "" for none."""
    new_secret = ""
    row.name = _name(values, Destination, row.pk)
    kind_before, row.kind = row.kind, _one_of(values.get("kind"), list(CHANNELS), "kind")
    channel = CHANNELS[row.kind]
    if kind_before != row.kind:
        row.url = row.secret = ""  # a stored secret goes to no other receiver
    row.enabled = _flag(values.get("enabled", True))
    has = channel.fields
    row.recipients = ", ".join(_check_recipients(values.get("recipients"))) if RECIPIENTS in has else ""
    row.url = _url(values.get("url"), row.url, row.shown_url, channel) if URL in has else ""
    row.secret, new_secret = _secret(values.get("secret"), row.secret, channel) if SECRET in has else ("", "")
    return new_secret


def tell_by_all_rules(row: Destination) -> None:
    """Have each rule tell this destination, beside those that it tells already."""
    row.rules.add(*Rule.objects.all())


def delete(row: Rule | Destination) -> None:
    """Delete a rule or destination. Open incidents of a deleted rule are resolved at the next evaluation; deliveries
    are kept.
    """
    row.delete()


def begin_test(row: Destination) -> Delivery:
    """Create a test message, which is tried once, even if the destination is disabled."""
    now = now_ms()
    return deliveries.begin(row, trial_message(now), None, now)


def _text(value: object, what: str, longest: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > longest or "\x00" in value:
        raise ValueError(f"{what} must be a string of 1 to {longest} characters")
    return value.strip()


def _name(values: Mapping[str, Any], model: type[Rule] | type[Destination], own: int | None) -> str:
    name = _text(values.get("name"), "name", 100)
    rows: Any = model._default_manager.filter(name=name)
    if rows.exclude(pk=own).exists():
        raise ValueError(f"The name {name} is taken: choose another")
    return name


def _one_of(value: object, choices: "list[str] | tuple[str, ...]", what: str) -> str:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}")
    return str(value)


def _seconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_SECONDS:
        raise ValueError(f"seconds must be an integer from 0 to {LONGEST_SECONDS}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("enabled must be true or false")  # noqa: TRY004 - all invalid values raise the same kind of error
    return value


def _url(value: object, stored: str, mask: str, channel: Channel) -> str:
    if isinstance(value, str) and stored and value in (mask, HIDDEN, ""):
        return stored
    if channel.url and value in (None, ""):
        return channel.url
    url = _text(value, "url", 2000)
    if url.endswith(f"/{HIDDEN}"):
        raise ValueError("The address is hidden: enter it again")
    try:
        ssrf_guard.check_form(url)
        ssrf_guard.target(url, allowed_addresses(), _literal_only)
    except ssrf_guard.AddressDenied as refused:
        raise ValueError(str(refused)) from None
    return url


def _literal_only(host: str, _port: int) -> list[str]:
    """Host names are resolved when a message is sent; here, only literal IP addresses can be refused."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return ["127.0.0.1" if host.lower() == "localhost" else "1.1.1.1"]


def _secret(value: object, stored: str, channel: Channel) -> tuple[str, str]:
    """Return the secret to store, and the generated one, if any."""
    if value in (None, "", HIDDEN):
        if stored:
            return stored, ""
        if not channel.makes_secret:
            raise ValueError(f"{channel.word} needs the key of its integration as secret")
        new_secret = secrets.token_urlsafe(32)
        return new_secret, new_secret
    if not isinstance(value, str) or not _SHORTEST_SECRET <= len(value) <= 500:
        raise ValueError(f"secret must have {_SHORTEST_SECRET} to 500 characters, or be empty to generate one")
    if not channel.makes_secret and not _KEY.fullmatch(value):
        raise ValueError(f"The key of {channel.word} has letters, digits and signs of ASCII only, without spaces")
    return value, ""


def _recipients(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _check_recipients(value: object) -> list[str]:
    addresses = _recipients(value) if isinstance(value, str) else value
    if not isinstance(addresses, list) or not 0 < len(addresses) <= _MOST_RECIPIENTS:
        raise ValueError(f"recipients must be 1 to {_MOST_RECIPIENTS} mail addresses")
    for each in addresses:
        try:
            validate_email(each)
        except ValidationError:
            raise ValueError(f"{each!r} is not a mail address") from None
    return [str(each) for each in addresses]


class RuleForm(forms.Form):
    """The condition, the connectors, and the destinations."""

    name = forms.CharField(max_length=100)
    kind = forms.ChoiceField(label="Alert when", choices=[(kind.value, kind.meaning) for kind in Kind])
    pattern = forms.CharField(
        label="On connectors", initial="*", max_length=300, help_text="* stands for any characters, ? for one."
    )
    seconds = forms.IntegerField(
        label="For at least (seconds)", initial=60, min_value=0,
        help_text="How long it must last. 0 for a stall: longer than usual for the connector.",
    )  # fmt: skip
    destinations = forms.MultipleChoiceField(
        label="Tell", required=False, widget=forms.CheckboxSelectMultiple, help_text="None: incidents are only listed."
    )
    enabled = forms.BooleanField(required=False, initial=True)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        names = Destination.objects.order_by("name").values_list("name", flat=True)
        field = self.fields["destinations"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(name, name) for name in names]


def _of(field: str, **attributes: str) -> dict[str, str]:
    """Return the attributes of a field that only some kinds have: the style sheet shows it only for them."""
    return {"data-kinds": " ".join(kind for kind, one in CHANNELS.items() if field in one.fields), **attributes}


class DestinationForm(forms.Form):
    """The address that messages are sent to."""

    name = forms.CharField(max_length=100)
    kind = forms.ChoiceField(choices=[(kind, one.word) for kind, one in CHANNELS.items()])
    url = forms.CharField(
        label="Address", required=False, max_length=2000,
        widget=forms.TextInput(attrs=_of(URL, autocomplete="off")),
        help_text="It is hidden once stored. If you leave it hidden, it is kept. PagerDuty and Opsgenie: leave it "
        "empty, or give your region's: events.eu.pagerduty.com/v2/enqueue, api.eu.opsgenie.com/v2/alerts.",
    )  # fmt: skip
    secret = forms.CharField(
        label="Secret or key", required=False, max_length=500,
        widget=forms.PasswordInput(attrs=_of(SECRET, autocomplete="new-password")),
        help_text="PagerDuty: the integration key. Opsgenie: the API key. Webhook: it signs the messages; if it is "
        "empty, one is made and shown once. A stored one is kept if you leave this empty.",
    )  # fmt: skip
    recipients = forms.CharField(
        required=False, max_length=2000, widget=forms.TextInput(attrs=_of(RECIPIENTS)),
        help_text="Mail addresses, separated by commas.",
    )  # fmt: skip
    enabled = forms.BooleanField(required=False, initial=True)


class NewDestinationForm(DestinationForm):
    """all_rules: whether each rule tells it from now on."""

    all_rules = forms.BooleanField(label="Notify it from all rules", required=False, initial=True)
