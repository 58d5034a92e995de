"""The forms of the pages. Like the API's input, their values are validated in `alerts.rule_editing`."""

from typing import Any

from django import forms

from ringfence.alerts.conditions import Kind
from ringfence.alerts.models import Destination
from ringfence.alerts.senders import CHANNELS
from ringfence.alerts.senders.channel import RECIPIENTS, SECRET, URL


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

    all_rules = forms.BooleanField(label="All rules tell it", required=False, initial=True)
