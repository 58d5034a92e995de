"""The `errors.*` settings of a connector (KIP-298): what is retried, skipped, logged, or kept. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.connectors.sdk.delivery import DEAD_LETTERS

TOLERANCE = "errors.tolerance"
RETRY_TIMEOUT = "errors.retry.timeout"
RETRY_DELAY_MAX = "errors.retry.delay.max.ms"
LOG = "errors.log.enable"
LOG_MESSAGES = "errors.log.include.messages"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """A connector's `errors.*` settings. `retry_s`: infinity for -1."""

    tolerant: bool = False
    retry_s: float = 0.0
    delay_max_s: float = 60.0
    log: bool = False
    log_messages: bool = False
    dead_letters: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "ErrorPolicy":
        """Read the policy from a validated configuration."""
        tolerant = config.get(TOLERANCE, "none").strip().lower() == "all"
        retry_ms = int(config.get(RETRY_TIMEOUT, "0"))
        return cls(
            tolerant,
            float("inf") if retry_ms < 0 else retry_ms / 1000,
            int(config.get(RETRY_DELAY_MAX, "60000")) / 1000,
            _true(config, LOG),
            _true(config, LOG_MESSAGES),
            (config.get(DEAD_LETTERS, "").strip() or None) if tolerant else None,
        )


def _true(config: Mapping[str, str], name: str) -> bool:
    return config.get(name, "false").strip().lower() == "true"
