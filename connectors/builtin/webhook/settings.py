"""The settings of WebhookSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigException, Importance, NonEmpty, Width

PREVIEW: Final = "webhook.preview"
"""In a task's configuration: show an example, and do not listen."""

NONE, GITHUB, STRIPE, HMAC, BEARER = "none", "github", "stripe", "hmac", "bearer"
STANDARD: Final = "standard-webhooks"
SIGNATURES: Final = (GITHUB, STRIPE, STANDARD, HMAC, BEARER, NONE)
STANDARD_ID: Final = "webhook-id"
BODY: Final = "body"
REPLAY_CHECKS: Final = (BODY, NONE)
MOST_INCLUDED: Final = 90
"""Names of headers to keep. With those of the signature and the key, a task needs fewer than 100."""
JSON, TEXT, BYTES = "json", "text", "bytes"
FORMATS: Final = (JSON, TEXT, BYTES)
HEADER_KEY, BODY_KEY = "header:", "body:"

HOOK: Final = "webhook"
PAGE: Final = "page"
"""Keys of the source partitions: `{"webhook": "keys"}`, and `{"webhook": "keys", "page": 17}`."""
FIRST, NEXT, KEYS = "first", "next", "keys"

_LONGEST_NAME: Final = 200


class HeaderNames:
    """Validates which headers are kept."""

    def __call__(self, name: str, value: object) -> None:
        header_names = value if isinstance(value, list | tuple) else []
        if len(header_names) > MOST_INCLUDED or any(len(str(each)) > _LONGEST_NAME for each in header_names):
            raise ConfigException(f"{name}: name at most {MOST_INCLUDED} headers of {_LONGEST_NAME} characters each.")

    def __str__(self) -> str:
        return f"at most {MOST_INCLUDED} names"


class KeyPlace:
    """Validates where the idempotency key is."""

    def __call__(self, name: str, value: object) -> None:
        text = str(value or "").strip()
        if not text:
            return
        header, body = text.removeprefix(HEADER_KEY), text.removeprefix(BODY_KEY)
        if (text.startswith(HEADER_KEY) and header.strip()) or (text.startswith(BODY_KEY) and body.startswith("/")):
            return
        raise ConfigException(
            f"{name}: {text} is neither header:<name> nor body:/<pointer>. Write header:Idempotency-Key, or body:/id."
        )

    def __str__(self) -> str:
        return "header:<name> or body:/<pointer>"


CONFIG_DEF: Final = ConfigDef()
_settings: Final = CONFIG_DEF.group()
_signed: Final = CONFIG_DEF.group("Signature")
_once: Final = CONFIG_DEF.group("Exactly once")
_limits: Final = CONFIG_DEF.group("Limits")

TOPIC: Final = _settings.text("topic", "The topic to write to: one record per request.", display_name="Topic")
BODY_FORMAT: Final = _settings.choice(
    "body.format",
    "json: the body is parsed, and refused with 400 if it is not JSON. text: UTF-8. bytes: as it is; "
    "set value.converter to org.apache.kafka.connect.converters.ByteArrayConverter.",
    FORMATS,
    JSON,
    display_name="Body",
)
HEADERS: Final = _settings.items(
    "headers.include",
    "HTTP headers to keep as headers of the record: comma-separated names.",
    validator=HeaderNames(),
    width=Width.NONE,
    display_name="HTTP headers",
)
SIGNATURE: Final = _signed.choice(
    "signature",
    "How a sender authenticates. github: X-Hub-Signature-256. stripe: Stripe-Signature. "
    "standard-webhooks: webhook-signature, which also covers the key and the time. hmac: HMAC-SHA256 of the body, "
    "in hexadecimal or base64. bearer: the secret itself, in Authorization. none: "
    "anybody who reaches the web process may write to the topic.",
    SIGNATURES,
    display_name="Signature",
)
SECRET: Final = _signed.secret(
    "signature.secret",
    "The secret that the sender signs with. Not used with signature=none.",
    importance=Importance.HIGH,
    display_name="Secret",
)
SECRET_BEFORE: Final = _signed.secret(
    "signature.secret.previous",
    "A second accepted secret, while you change the secret at the sender.",
    importance=Importance.LOW,
    display_name="Previous secret",
)
SIGNATURE_HEADER: Final = _signed.text(
    "signature.header",
    "With signature=hmac: the header with the signature. A leading sha256= is allowed.",
    "X-Signature",
    validator=NonEmpty(),
    importance=Importance.LOW,
    display_name="Signature header",
)
REPLAY: Final = _signed.choice(
    "signature.replay.check",
    "For signatures that cover the body but not the key, as with a key in a header beside github, "
    "hmac or stripe. body: the same body under another key is refused with 409 within the window, since whoever "
    "has seen one request could send it again under any key. none: it is another record.",
    REPLAY_CHECKS,
    BODY,
    display_name="Replay check",
)
TOLERANCE: Final = _signed.long(
    "signature.tolerance.ms",
    "With signature=stripe or standard-webhooks: the maximum difference between the signed time and now.",
    300_000,
    1000,
    86_400_000,
    importance=Importance.LOW,
    display_name="Tolerance (ms)",
)
KEY: Final = _once.text(
    "idempotency.key",
    "Where a request has its idempotency key: header:Idempotency-Key, header:X-GitHub-Delivery or "
    "body:/id. Each key is delivered exactly once within the window, however often it is sent. "
    "Without a key, delivery is at least once: a repeated request is a second record.",
    "",
    validator=KeyPlace(),
    importance=Importance.HIGH,
    display_name="Idempotency key",
)
WINDOW: Final = _once.long(
    "idempotency.window.ms",
    "How long a key is remembered. A request that is repeated later is a new record. Choose more "
    "than the time for which the sender retries.",
    86_400_000,
    1000,
    30 * 86_400_000,
    display_name="Window (ms)",
)
MOST_KEYS: Final = _once.integer(
    "idempotency.keys.max",
    "The maximum number of remembered keys, with about 150 bytes of memory each, and twice that "
    "where bodies are remembered, too (signature.replay.check). Further requests "
    "are answered with 503 until older keys leave the window: no key is forgotten early.",
    1_000_000,
    1,
    5_000_000,
    importance=Importance.LOW,
    display_name="Keys",
)
MOST_BODY: Final = _limits.integer(
    "max.body.bytes",
    "Larger bodies are refused with 413, and so are records that turn out larger than their topic's max.message.bytes.",
    524_288,
    1,
    4 * 1024 * 1024,
    importance=Importance.LOW,
    display_name="Body (bytes)",
)
QUEUE: Final = _limits.integer(
    "queue.max.requests",
    "The maximum number of requests that wait for their commit. Further ones are answered with 503 and Retry-After.",
    1000,
    1,
    100_000,
    importance=Importance.LOW,
    display_name="Queue",
)
QUEUE_BYTES: Final = _limits.long(
    "queue.max.bytes",
    "The maximum number of bytes in the bodies of waiting requests.",
    32 * 1024 * 1024,
    1,
    1024 * 1024 * 1024,
    importance=Importance.LOW,
    display_name="Queue (bytes)",
)
BATCH: Final = _limits.integer(
    "batch.max.requests",
    "The maximum number of requests per transaction. Those that arrive during a commit share the next one.",
    500,
    1,
    10_000,
    importance=Importance.LOW,
    display_name="Batch",
)
RESPONSE_TIMEOUT: Final = _limits.integer(
    "response.timeout.ms",
    "A request that is not committed within this time is answered with 503. It may still be "
    "committed later; with an idempotency key, sending it again is safe.",
    10_000,
    100,
    30_000,
    importance=Importance.LOW,
    display_name="Response timeout (ms)",
)
PREVIEW_BODY: Final = _settings.text(
    "preview.body",
    "A sample body, used only by the preview, which cannot receive requests.",
    '{"id": "1", "message": "an example"}',
    importance=Importance.LOW,
    display_name="Example for the preview",
)
