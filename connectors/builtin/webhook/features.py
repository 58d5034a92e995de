"""What WebhookSource contributes to the platform: requests to `/hooks/<connector>` go to its task."""

from typing import Final

from ringfence.connectors.features import Features

FEATURES: Final = Features(receives_requests=True)
