"""WebhookSource: HTTP requests, answered with 2xx only once their records are committed."""

import socket
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from ringfence.connectors.builtin.webhook import settings as names
from ringfence.connectors.builtin.webhook.request_parsing import key_header, standard_secret
from ringfence.connectors.builtin.webhook.request_queue import HEAD, check_head, check_page, page_of
from ringfence.connectors.builtin.webhook.settings import CONFIG_DEF
from ringfence.connectors.builtin.webhook.task import WebhookSourceTask
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary
from ringfence.connectors.sdk.worker_limits import LISTEN_HOST, current

_AUTHENTICATES: Final = (names.SIGNATURE, names.SECRET, names.SECRET_BEFORE, names.KEY, names.WINDOW)


class WebhookSourceConnector(SourceConnector):
    """Receives at `/hooks/<name of the connector>` of every web process, in one task."""

    version: ClassVar[str] = "1.0.0"
    own_settings = CONFIG_DEF
    task_type = WebhookSourceTask
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Webhooks",
        summary="HTTP requests of GitHub, Stripe and others, answered once they are committed.",
        category=Category.APPLICATIONS,
        guarantee=Guarantee.EXACTLY_ONCE_WITHIN_WINDOW,
        goes_back=False,
        needs=("A sender with an idempotency key that retries until it is answered with 2xx.",),
        sample={
            "tasks.max": "1",
            "topic": "events",
            "signature": "none",
            "idempotency.key": "header:Idempotency-Key",
        },
        icon="webhook",
    )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, names.PREVIEW: "true"} if self.context.trial else dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        signature = config.get(names.SIGNATURE, "").strip()
        if signature in names.SIGNATURES and signature != names.NONE and not config.get(names.SECRET, "").strip():
            errors[names.SECRET] = [f"{names.SIGNATURE}={signature} needs the secret that the sender signs with."]
        if signature == names.NONE and config.get(names.SECRET, "").strip():
            errors[names.SIGNATURE] = [
                f"{names.SECRET} is set, but {names.SIGNATURE}=none checks nothing. Choose how requests are signed, "
                "or remove the secret."
            ]
        errors.update(_find_signature_errors(config, signature))
        boundary = transaction_boundary(config)
        if boundary != "poll":
            errors[TRANSACTION_BOUNDARY] = [
                f"{TRANSACTION_BOUNDARY}={boundary}: senders wait for the commit. Use poll; requests that arrive "
                "during a commit share the next one."
            ]
        return errors

    def examine(self, config: Mapping[str, str]) -> Examination:
        """Check how senders sign, and that a task can listen here. Pages show the address beside it."""
        signature = config.get(names.SIGNATURE, "").strip()
        if signature not in names.SIGNATURES:
            return Examination({names.SIGNATURE: ["Say how senders sign their requests."]})
        wrong = {name: texts for name, texts in self.validate(config).items() if name in _AUTHENTICATES}
        if wrong:
            return Examination(wrong)
        if problem := _try_listening():
            return Examination({"connector.class": [problem]})
        who = "anybody who reaches this platform may send" if signature == names.NONE else f"signed by {signature}"
        key = config.get(names.KEY, "").strip()
        once = f"each value of {key} is one record" if key else "a request that is sent again is a second record"
        return Examination(summary=f"POST requests, {who}; {once}.")

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported with an idempotency key, within its window. Without one, a repeated request is a second record."""
        keyed = config.get(names.KEY, "").strip()
        return ExactlyOnceSupport.SUPPORTED if keyed else ExactlyOnceSupport.UNSUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        if config.get(names.KEY, "").strip():
            return "Each idempotency key is one record within the window, if its sender retries until it gets 2xx."
        return f"A request that is sent again is a second record. Set {names.KEY}."

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of pages of keys, which forgets the keys; a new offset must have their form."""
        for partition, offset in offsets:
            number = partition.get(names.PAGE)
            is_page = isinstance(number, int) and not isinstance(number, bool) and dict(partition) == page_of(number)
            if dict(partition) != dict(HEAD) and not is_page:
                raise ConnectorError(f"The partition {dict(partition)} is not WebhookSource's. GET shows the form.")
            if offset is not None:
                check_page(offset) if is_page else check_head(offset)
        return True


def _try_listening() -> str:
    """Return why a task could not take requests from web processes on this machine; "" if it could."""
    try:
        host, _ = current().listen_addresses()
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.bind(address)
    except OSError as error:
        return f"A task cannot listen on this worker: {error}. Correct the worker's {LISTEN_HOST}."
    return ""


def _find_signature_errors(config: Mapping[str, str], signature: str) -> dict[str, list[str]]:
    """Return what lets a signed request be sent again, and secrets of a wrong form."""
    errors: dict[str, list[str]] = {}
    if signature == names.STANDARD:
        errors.update(_find_secret_errors(config))
        if key_header(config.get(names.KEY, "")) not in ("", names.STANDARD_ID):
            errors[names.KEY] = [
                f"{names.SIGNATURE}={signature} signs the header {names.STANDARD_ID} and no other key. Use "
                f"{names.HEADER_KEY}{names.STANDARD_ID}, or a key in the body."
            ]
    if signature in (names.STANDARD, names.STRIPE) and config.get(names.KEY, "").strip():
        window, tolerance = (_milliseconds(config, name) for name in (names.WINDOW, names.TOLERANCE))
        if window is not None and tolerance is not None and window < 2 * tolerance:
            errors[names.WINDOW] = [
                f"A request is accepted for {2 * tolerance} ms, while its key is remembered for {window} ms: whoever "
                f"has seen it could send it again. Use at least twice {names.TOLERANCE}."
            ]
    return errors


def _find_secret_errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    errors = {}
    for name in (names.SECRET, names.SECRET_BEFORE):
        secret = config.get(name, "").strip()
        try:
            if secret and "${" not in secret:
                standard_secret(secret)
        except ValueError:
            errors[name] = ["A secret of Standard Webhooks is whsec_ and base64, as the sender shows it."]
    return errors


def _milliseconds(config: Mapping[str, str], name: str) -> int | None:
    """Return a time; None if it is no number, which its own validation reports."""
    text = config.get(name, "").strip() or str(CONFIG_DEF.keys[name].default)
    return int(text) if text.isdecimal() else None
