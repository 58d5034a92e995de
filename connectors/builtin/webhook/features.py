"""What WebhookSource contributes to the platform: receiving requests, and the documentation of its settings."""

from typing import Final

from ringfence.connectors.sdk.features import Features

FEATURES: Final = Features(
    receives_requests=True,
    sections=[
        (r"signature(\..*)?", "webhooks#who-may-send", "Who may send"),
        (r"idempotency\..*", "webhooks#what-is-exactly-once", "What is exactly once"),
        (r"max\.body\.bytes|queue\..*", "webhooks#limits", "Limits"),
    ],
)
