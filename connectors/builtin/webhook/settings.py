"""The settings of WebhookSource, and the names in its source partitions and offsets."""

from typing import Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    Width,
)

TOPIC: Final = "topic"
SIGNATURE: Final = "signature"
SECRET: Final = "signature.secret"  # noqa: S105 - a name
SECRET_BEFORE: Final = "signature.secret.previous"  # noqa: S105 - a name
SIGNATURE_HEADER: Final = "signature.header"
REPLAY: Final = "signature.replay.check"
TOLERANCE: Final = "signature.tolerance.ms"
KEY: Final = "idempotency.key"
WINDOW: Final = "idempotency.window.ms"
MOST_KEYS: Final = "idempotency.keys.max"
BODY_FORMAT: Final = "body.format"
MOST_BODY: Final = "max.body.bytes"
HEADERS: Final = "headers.include"
BATCH: Final = "batch.max.requests"
QUEUE: Final = "queue.max.requests"
QUEUE_BYTES: Final = "queue.max.bytes"
RESPONSE_TIMEOUT: Final = "response.timeout.ms"
PREVIEW_BODY: Final = "preview.body"
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
_SIGNED: Final = "Signature"
_ONCE: Final = "Exactly once"
_LIMITS: Final = "Limits"


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


CONFIG_DEF: Final = (
    ConfigDef()
    .define(
        TOPIC,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        documentation="The topic to write to: one record per request.",
        display_name="Topic",
    )
    .define(
        BODY_FORMAT,
        ConfigType.STRING,
        JSON,
        validator=OneOf(*FORMATS),
        recommender=Choices(*FORMATS),
        importance=Importance.MEDIUM,
        documentation="json: the body is parsed, and refused with 400 if it is not JSON. text: UTF-8. bytes: as it is; "
        "set value.converter to org.apache.kafka.connect.converters.ByteArrayConverter.",
        width=Width.SHORT,
        display_name="Body",
    )
    .define(
        HEADERS,
        ConfigType.LIST,
        "",
        validator=HeaderNames(),
        documentation="HTTP headers to keep as headers of the record: comma-separated names.",
        display_name="HTTP headers",
    )
    .define(
        SIGNATURE,
        ConfigType.STRING,
        validator=OneOf(*SIGNATURES),
        recommender=Choices(*SIGNATURES),
        importance=Importance.HIGH,
        documentation="How a sender authenticates. github: X-Hub-Signature-256. stripe: Stripe-Signature. "
        "standard-webhooks: webhook-signature, which also covers the key and the time. hmac: HMAC-SHA256 of the body, "
        "in hexadecimal or base64. bearer: the secret itself, in Authorization. none: "
        "anybody who reaches the web process may write to the topic.",
        group=_SIGNED,
        width=Width.SHORT,
        display_name="Signature",
    )
    .define(
        SECRET,
        ConfigType.PASSWORD,
        None,
        importance=Importance.HIGH,
        documentation="The secret that the sender signs with. Not used with signature=none.",
        group=_SIGNED,
        display_name="Secret",
    )
    .define(
        SECRET_BEFORE,
        ConfigType.PASSWORD,
        None,
        importance=Importance.LOW,
        documentation="A second accepted secret, while you change the secret at the sender.",
        group=_SIGNED,
        display_name="Previous secret",
    )
    .define(
        SIGNATURE_HEADER,
        ConfigType.STRING,
        "X-Signature",
        validator=NonEmpty(),
        importance=Importance.LOW,
        documentation="With signature=hmac: the header with the signature. A leading sha256= is allowed.",
        group=_SIGNED,
        display_name="Signature header",
    )
    .define(
        REPLAY,
        ConfigType.STRING,
        BODY,
        validator=OneOf(*REPLAY_CHECKS),
        recommender=Choices(*REPLAY_CHECKS),
        importance=Importance.MEDIUM,
        documentation="For signatures that cover the body but not the key, as with a key in a header beside github, "
        "hmac or stripe. body: the same body under another key is refused with 409 within the window, since whoever "
        "has seen one request could send it again under any key. none: it is another record.",
        group=_SIGNED,
        width=Width.SHORT,
        display_name="Replay check",
    )
    .define(
        TOLERANCE,
        ConfigType.LONG,
        300_000,
        validator=Range(1000, 86_400_000),
        importance=Importance.LOW,
        documentation="With signature=stripe or standard-webhooks: the maximum difference between the signed time "
        "and now.",
        group=_SIGNED,
        width=Width.SHORT,
        display_name="Tolerance (ms)",
    )
    .define(
        KEY,
        ConfigType.STRING,
        "",
        validator=KeyPlace(),
        importance=Importance.HIGH,
        documentation="Where a request has its idempotency key: header:Idempotency-Key, header:X-GitHub-Delivery or "
        "body:/id. Each key is delivered exactly once within the window, however often it is sent. "
        "Without a key, delivery is at least once: a repeated request is a second record.",
        group=_ONCE,
        display_name="Idempotency key",
    )
    .define(
        WINDOW,
        ConfigType.LONG,
        86_400_000,
        validator=Range(1000, 30 * 86_400_000),
        importance=Importance.MEDIUM,
        documentation="How long a key is remembered. A request that is repeated later is a new record. Choose more "
        "than the time for which the sender retries.",
        group=_ONCE,
        width=Width.SHORT,
        display_name="Window (ms)",
    )
    .define(
        MOST_KEYS,
        ConfigType.INT,
        1_000_000,
        validator=Range(1, 5_000_000),
        importance=Importance.LOW,
        documentation="The maximum number of remembered keys, with about 150 bytes of memory each, and twice that "
        "where bodies are remembered, too (signature.replay.check). Further requests "
        "are answered with 503 until older keys leave the window: no key is forgotten early.",
        group=_ONCE,
        width=Width.SHORT,
        display_name="Keys",
    )
    .define(
        MOST_BODY,
        ConfigType.INT,
        524_288,
        validator=Range(1, 4 * 1024 * 1024),
        importance=Importance.LOW,
        documentation="Larger bodies are refused with 413, and so are records that turn out larger than "
        "their topic's max.message.bytes.",
        group=_LIMITS,
        width=Width.SHORT,
        display_name="Body (bytes)",
    )
    .define(
        QUEUE,
        ConfigType.INT,
        1000,
        validator=Range(1, 100_000),
        importance=Importance.LOW,
        documentation=(
            "The maximum number of requests that wait for their commit. Further ones are answered with 503 and "
            "Retry-After."
        ),
        group=_LIMITS,
        width=Width.SHORT,
        display_name="Queue",
    )
    .define(
        QUEUE_BYTES,
        ConfigType.LONG,
        32 * 1024 * 1024,
        validator=Range(1, 1024 * 1024 * 1024),
        importance=Importance.LOW,
        documentation="The maximum number of bytes in the bodies of waiting requests.",
        group=_LIMITS,
        width=Width.SHORT,
        display_name="Queue (bytes)",
    )
    .define(
        BATCH,
        ConfigType.INT,
        500,
        validator=Range(1, 10_000),
        importance=Importance.LOW,
        documentation="The maximum number of requests per transaction. Those that arrive during a commit share the "
        "next one.",
        group=_LIMITS,
        width=Width.SHORT,
        display_name="Batch",
    )
    .define(
        RESPONSE_TIMEOUT,
        ConfigType.INT,
        10_000,
        validator=Range(100, 30_000),
        importance=Importance.LOW,
        documentation="A request that is not committed within this time is answered with 503. It may still be "
        "committed later; with an idempotency key, sending it again is safe.",
        group=_LIMITS,
        width=Width.SHORT,
        display_name="Response timeout (ms)",
    )
    .define(
        PREVIEW_BODY,
        ConfigType.STRING,
        '{"id": "1", "message": "an example"}',
        importance=Importance.LOW,
        documentation="A sample body, used only by the preview, which cannot receive requests.",
        display_name="Example for the preview",
    )
)
