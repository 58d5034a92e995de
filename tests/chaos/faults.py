"""Faults of network, broker and workers, drawn from a seed: late and doubled requests of transactions, cuts, SIGKILL to
the broker and to workers, SIGSTOP to workers.

What is late reaches the broker around its death and behind the end of its transaction: that is what makes transactions
hang.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable

import httpx

from ringfence.local.errors import LocalError
from tests.chaos.frozen_workers import FrozenWorkers
from tests.e2e.up import Up
from tests.support.proxy import Api, Fate, Proxied, Trap

_APIS = (Api.PRODUCE, Api.ADD_PARTITIONS, Api.END_TXN)
_LATEST_S = 8.0
_ASLEEP_S = (2.0, 15.0)
"""Some sleep longer than a member of the group may be silent (10 s): they wake up replaced."""


class Faults:
    """`run` until the time is over; then everything is whole again. `log` tells it in order."""

    def __init__(
        self, proxied: Proxied, up: Up, seed: int, group: str, have_leader_write: Callable[[], object]
    ) -> None:
        """group: requests of transactional ids of this group are caught. have_leader_write: has the leader write
        something harmless; called on a thread, and may fail.
        """
        self._have_leader_write = have_leader_write
        self._proxied = proxied
        self._up = up
        self._frozen = FrozenWorkers(up, self._say)
        self._chance = random.Random(seed)
        self._group = group
        self._late: list[threading.Timer] = []
        self.log: list[str] = []
        self.delivered = 0
        self.broker_kills = 0
        self.worker_kills = 0
        self.delivered_of_leader = 0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        acts = [self._hold, self._hold, self._hold, self._cut, self._silence, self._kill_broker]
        acts += [self._kill_worker, self._freeze_worker, self._hold_leader, self._double]
        self._hold_leader()
        self._kill_broker()
        self._kill_worker()
        while time.monotonic() < end:
            time.sleep(self._chance.uniform(0.3, 2.0))
            self._chance.choice(acts)()
        for timer in self._late:
            timer.join()
        self._frozen.thaw_all()
        self._proxied.proxy.clear()

    def _say(self, text: str) -> None:
        self.log.append(f"{time.strftime('%H:%M:%S')} {text}")
        print(self.log[-1], flush=True)

    def _trap(self, fate: Fate) -> Trap:
        api = self._chance.choice(_APIS)
        self._say(f"{fate.name.lower()} {api.name}")
        return self._proxied.proxy.set_trap(
            lambda request: request.api == api and request.names(f"{self._group}-"), fate, self._chance.randint(1, 3)
        )

    def _hold(self) -> None:
        self._deliver_later(self._trap(Fate.HOLD))

    def _double(self) -> None:
        """The requests go their way, and come to the broker once more: with transactions v2 that does nothing."""
        self._deliver_later(self._trap(Fate.PASS))

    def _deliver_later(self, trap: Trap) -> None:
        timer = threading.Timer(self._chance.uniform(0.5, _LATEST_S), self._deliver, [trap])
        timer.daemon = True
        self._late.append(timer)
        timer.start()

    def _hold_leader(self) -> None:
        """Requests of the leader's own transactional id, which it would send for a command."""
        api = self._chance.choice(_APIS)
        self._say(f"hold {api.name} of the leader")
        trap = self._proxied.proxy.set_trap(
            lambda request: request.api == api and request.names(f"connect-cluster-{self._group}"), Fate.HOLD, 1
        )
        threading.Thread(target=self._ask_leader, daemon=True).start()
        timer = threading.Timer(self._chance.uniform(0.5, _LATEST_S), self._deliver_of_leader, [trap])
        timer.daemon = True
        self._late.append(timer)
        timer.start()

    def _ask_leader(self) -> None:
        with contextlib.suppress(httpx.HTTPError, AssertionError):  # it may be away just now
            self._have_leader_write()

    def _deliver_of_leader(self, trap: Trap) -> None:
        before = self.delivered
        self._deliver(trap)
        self.delivered_of_leader += self.delivered - before

    def _deliver(self, trap: Trap) -> None:
        trap.left = 0
        for request in list(trap.caught):
            with contextlib.suppress(OSError, StopIteration):  # the broker may be away just now
                self._proxied.proxy.deliver(request)
                self.delivered += 1

    def _cut(self) -> None:
        self._say("cut every connection")
        self._proxied.proxy.cut()

    def _silence(self) -> None:
        self._trap(Fate.SILENCE)

    def _kill_broker(self) -> None:
        """Right behind a request that is held back, and it comes late as soon as the broker is back."""
        trap = self._trap(Fate.HOLD)
        time.sleep(self._chance.uniform(0.2, 1.0))
        self._say("SIGKILL to the broker")
        self._proxied.kafka.kill()
        try:
            self._proxied.kafka.start()
        except LocalError:  # on a machine that is so busy that a minute is too short
            self._proxied.kafka.kill()
            self._proxied.kafka.start()
        self.broker_kills += 1
        self._deliver(trap)

    def _kill_worker(self) -> None:
        """Never one that is frozen: the pieces of its process tree would sleep on."""
        victim = self._chance.choice(self._frozen.awake)
        self._say(f"SIGKILL to {victim}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._up.pid(victim), signal.SIGKILL)
        self.worker_kills += 1

    def _freeze_worker(self) -> None:
        victim = self._chance.choice(self._frozen.awake)
        self._say(f"SIGSTOP to {victim}")
        self._frozen.freeze(victim, self._chance.uniform(*_ASLEEP_S))
