"""Step 2 of a fencing round: fence every id of the old generation, on its cluster, with the first credentials that
work.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.fencer import FencedProducer, Fencer
from ringfence.fencing.kafka.open_transactions import Hanging
from ringfence.fencing.leader.fence_targets import AdminAccess

log = logging.getLogger(__name__)

SECONDS: Final = 30.0
_REMEDY = (
    "No task of the new generation starts before the fence succeeds; it is retried automatically. Check that {where} "
    "can be reached, and that the connector's admin client has Write on the transactional ids {first} to {last} "
    "there: correct the admin.override. settings, or grant the permission"
)


_clients = ClientPool(Fencer)  # the platform's start runs hundreds of rounds


@dataclass(frozen=True, slots=True)
class FenceResult:
    """What was fenced. whose: the credentials that worked; errors: those of the credentials tried before.

    hanging: transactions of these producers that their coordinators did not know, and that were ended.
    """

    producers: Sequence[FencedProducer] = ()
    whose: str = ""
    errors: Sequence[str] = field(default_factory=tuple)
    hanging: Sequence[Hanging] = ()

    @property
    def message(self) -> str:
        """The errors as a message; "" if the first credentials worked."""
        another = f"Fenced with {self.whose}, since {'; '.join(self.errors)}" if self.errors else ""
        ending = f"Ended what hung on {'; '.join(one.message for one in self.hanging)}" if self.hanging else ""
        return ". ".join(filter(None, (another, ending)))

    @property
    def epochs(self) -> dict[int, int]:
        """Return the newest epoch of each producer id."""
        return {one.producer_id: one.epoch for one in self.producers}


def fence(ids: Sequence[str], accesses: Sequence[AdminAccess], seconds: float = SECONDS) -> FenceResult:
    """Fence all ids, with one of these credentials. Raises `Retriable` or `Fatal` with the remedy if none works.

    After any error the next credentials are tried: brokers do not reliably distinguish wrong credentials from other
    errors. Fencing an id twice is harmless. seconds: the limit for each try, and before that for its first answer.
    """
    troubles: list[tuple[AdminAccess, FencingError]] = []
    for access in accesses:
        try:
            producers = _clients.call(
                access.connection,
                lambda fencer: fencer.fence(ids, Deadline.after(seconds)),
                lambda connection: Fencer(connection, seconds),
            )
        except FencingError as error:
            troubles.append((access, error))
            continue
        result = FenceResult(producers, access.whose, [f"{one.whose} did not do: {error}" for one, error in troubles])
        if result.errors:
            log.warning("Fenced %s. %s", ", ".join(ids), result.message)
        return result
    errors = "; ".join(f"with {access.whose}: {error}" for access, error in troubles)
    remedy = _REMEDY.format(where=accesses[0].connection.bootstrap, first=ids[0], last=ids[-1])
    kind = Fatal if all(isinstance(error, Fatal) for _, error in troubles) else Retriable
    raise kind(f"The old tasks could not be fenced {errors}. {remedy}", troubles[0][1].code)
