"""The connections that preflight asks with, kept for a while: one for each login."""

from typing import Final

from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.probes import Prober

PROBERS: Final = ClientPool(Prober)
