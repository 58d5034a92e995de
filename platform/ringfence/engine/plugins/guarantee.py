"""What a connector guarantees with one configuration, for forms and pages."""

import logging
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import ExactlyOnceSupport, Guarantee, SourceConnector

log = logging.getLogger(__name__)

_AT_BEST: Final = (Guarantee.EXACTLY_ONCE, Guarantee.EXACTLY_ONCE_WITHIN_WINDOW)
_SWITCHED_OFF: Final = "The workers run without exactly.once.source.support=enabled. Set it on every worker."


def describe_guarantee(
    connector: SourceConnector, config: Mapping[str, str], *, exactly_once: bool, sound: bool = True
) -> dict[str, str]:
    """Return `{"guarantee", "why"}`: a `Guarantee`, and what it depends on.

    exactly_once: whether the worker runs with exactly-once support. sound: whether the connector's own settings are
    valid; otherwise the answer is the best that it can promise.
    """
    if not exactly_once:
        return _answer(Guarantee.AT_LEAST_ONCE, _SWITCHED_OFF)
    best = connector.catalog.guarantee if connector.catalog is not None else Guarantee.UNKNOWN
    if not sound:
        return _answer(best, "" if best is Guarantee.UNKNOWN else "At best: it depends on the settings.")
    try:
        answer, why = connector.exactly_once_support(config), str(connector.explain_guarantee(config))
    except Exception as error:  # noqa: BLE001 - plugin code
        log.info("The plugin could not tell what it guarantees: %s", type(error).__name__)
        return _answer(Guarantee.UNKNOWN, "")
    match answer:
        case ExactlyOnceSupport.SUPPORTED:
            return _answer(best if best in _AT_BEST else Guarantee.EXACTLY_ONCE, why)
        case ExactlyOnceSupport.UNSUPPORTED:
            return _answer(Guarantee.AT_LEAST_ONCE, why)
        case _:
            return _answer(Guarantee.UNKNOWN, why)


def _answer(guarantee: Guarantee, why: str) -> dict[str, str]:
    return {"guarantee": guarantee.value, "why": why}
