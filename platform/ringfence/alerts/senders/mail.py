"""Mail through Django, in plain text."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.core.mail import EmailMessage

from ringfence.alerts.messages import facts_of, text_of
from ringfence.alerts.senders.channel import RECIPIENTS, Channel, Endpoint, NotSent

_LONGEST_SUBJECT: Final = 200


def _send(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    if not settings.EMAIL_HOST and settings.EMAIL_BACKEND.endswith(".smtp.EmailBackend"):
        raise NotSent("No mail server is set: set RINGFENCE_SMTP_URL for the workers", final=True)
    subject = " ".join(text_of(message).split())[:_LONGEST_SUBJECT]
    mail = EmailMessage(subject, _text(message), settings.DEFAULT_FROM_EMAIL, list(to.recipients))
    try:
        count = mail.send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors, and their texts contain no password
        raise NotSent(f"The mail server did not accept it ({type(error).__name__})") from None
    if not count:
        raise NotSent("The mail server did not accept it")
    return 250


def _text(message: Mapping[str, Any]) -> str:
    lines = [str(message.get("summary", "")), str(message.get("url", "")), ""]
    lines += [f"{name}: {text}" for name, text in facts_of(message)]
    return "\n".join([*lines, "", json.dumps(dict(message), indent=2, ensure_ascii=False)])


CHANNEL: Final = Channel("mail", "Mail", (RECIPIENTS,), _send)
