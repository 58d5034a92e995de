"""Whether every live worker has exactly-once source support enabled, and whether a connector requires it. Pure."""

from collections.abc import Mapping

from ringfence.connectors.delivery_settings import EXACTLY_ONCE_SUPPORT
from ringfence.connectors.sdk.names import list_first
from ringfence.engine.preflight.check import MOST_NAMED, Check, Result


def check_modes(modes: Mapping[str, str] | None, *, required: bool) -> Check | None:
    """Return the finding for live workers without exactly.once.source.support=enabled; None if there are none.

    modes: of all live workers; None if unknown, and then there is no finding.
    """
    behind = {worker: mode for worker, mode in sorted((modes or {}).items()) if mode != "enabled"}
    if not behind:
        return None
    workers = list_first([f"{worker} ({mode})" for worker, mode in behind.items()], MOST_NAMED)
    key = EXACTLY_ONCE_SUPPORT
    text = f"Not every worker has exactly-once source support enabled: {workers}."
    remedy = "Set exactly.once.source.support=enabled on these workers, and restart them."
    return Check(key, Result.FAILED if required else Result.UNKNOWN, text, remedy, key, decides=required)


def requires_exactly_once(config: Mapping[str, str]) -> bool:
    """Return whether the configuration has `exactly.once.support=required`."""
    return config.get(EXACTLY_ONCE_SUPPORT, "requested").strip().lower() == "required"
