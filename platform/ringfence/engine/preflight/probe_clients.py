"""The connections of preflight, one for each login. They are kept for a while."""

from typing import Final

from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.permission_probes import Prober

PROBERS: Final = ClientPool(Prober)
