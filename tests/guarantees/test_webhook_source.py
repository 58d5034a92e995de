"""WebhookSource under the kernel: each key once while its task is killed and senders send again unanswered ones."""

import asyncio
import random
from collections import Counter

import pytest

from ringfence.connectors.api import Endpoint
from ringfence.connectors.builtin.webhook.task import WebhookSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.web.hooks.link import Link, Unreachable
from tests.guarantees.stage import Stage
from tests.support.attempts import Attempt

pytestmark = pytest.mark.slow

SENDERS = 20
KILLS = 5
TEXT = "org.apache.kafka.connect.storage.StringConverter"


class Senders:
    """They send numbers, each again until it is answered with 2xx; some lose the answer and send once more."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._link: Link | None = None
        self._number = 0
        self.over = False
        self.answered: set[int] = set()
        self.again = 0

    def endpoint(self) -> Endpoint | None:
        status = self._stage.status()
        return None if status is None else status.endpoint

    async def follow(self) -> None:
        """What a web process does: find the task that runs now."""
        while not self.over:
            found = await asyncio.to_thread(self.endpoint)
            if found is not None and (self._link is None or self._link.closed or self._link.endpoint != found):
                if self._link is not None:
                    self._link.close()
                self._link = Link(found)
            await asyncio.sleep(0.1)

    async def send(self) -> None:
        chance = random.Random(self._number)
        while not self.over:
            self._number += 1
            number = self._number
            lost = chance.random() < 0.1
            while not await self._try(number) or lost:
                self.again += 1
                if number in self.answered:
                    lost = False
                await asyncio.sleep(0.02)

    async def _try(self, number: int) -> bool:
        try:
            if self._link is None:
                return False
            await self._link.open()
            answer = await self._link.ask([("idempotency-key", str(number))], str(number).encode(), 10)
        except Unreachable:
            return False
        assert answer["status"] in (200, 503), answer
        if answer["status"] == 200:
            self.answered.add(number)
        return number in self.answered


async def torment(stage: Stage, senders: Senders, config: dict[str, str]) -> None:
    attempts: list[Attempt] = []
    following = asyncio.create_task(senders.follow())
    sending = [asyncio.create_task(senders.send()) for _ in range(SENDERS)]
    try:
        for number in range(KILLS + 1):
            attempt = Attempt(stage, number + 1, config, class_name(WebhookSourceTask), {})
            attempts.append(attempt)
            aim = len(senders.answered) + 300
            async with asyncio.timeout(60):
                while len(senders.answered) < aim:
                    assert attempt.running, attempt.log
                    await asyncio.sleep(0.01)
            if number < KILLS:
                await asyncio.to_thread(attempt.kill)
        senders.over = True
        async with asyncio.timeout(60):
            await asyncio.gather(*sending)
        assert (await asyncio.to_thread(attempts[-1].stop))["trace"] is None
    finally:
        senders.over = True
        for each in (following, *sending):
            each.cancel()
        for one in attempts:
            one.close()


def config_of(stage: Stage, *, keyed: bool) -> dict[str, str]:
    return {
        "name": str(stage.connector),
        "connector.class": "WebhookSource",
        "tasks.max": "1",
        "topic": stage.data,
        "signature": "none",
        "idempotency.key": "header:Idempotency-Key" if keyed else "",
        "body.format": "text",
        "key.converter": TEXT,
        "value.converter": TEXT,
    }


@pytest.mark.parametrize("keyed", [True, False], ids=["with keys", "control without keys"])
def test_each_key_once_while_the_task_is_killed(stage: Stage, keyed: bool) -> None:
    config = config_of(stage, keyed=keyed)
    stage.configure(config)
    stage.count()
    senders = Senders(stage)
    asyncio.run(torment(stage, senders, config))
    found = Counter(stage.visible())
    print(f"{len(senders.answered)} answered, {senders.again} sent again, {sum(found.values())} records")
    assert not senders.answered - found.keys(), "answered with 2xx, and not in Kafka"
    twice = {number: count for number, count in found.items() if count > 1}
    if keyed:
        assert not twice, "a key is there twice"
        assert set(found) == senders.answered
        assert senders.again > SENDERS, "nothing was sent again: this shows nothing"
    else:
        assert twice, "without keys what is sent again must be there twice, else this test sees nothing"


def test_a_replaced_task_that_wakes_up_confirms_nothing(stage: Stage) -> None:
    config = config_of(stage, keyed=True)
    stage.configure(config)
    stage.count()
    attempts = [Attempt(stage, 1, config, class_name(WebhookSourceTask), {})]
    senders = Senders(stage)

    async def ask(link: Link, number: int) -> int:
        try:
            return int((await link.ask([("idempotency-key", str(number))], str(number).encode(), 20))["status"])
        except Unreachable:
            return 503

    async def link_to(other: Endpoint | None) -> Link:
        async with asyncio.timeout(60):
            while (found := await asyncio.to_thread(senders.endpoint)) in (None, other):
                await asyncio.sleep(0.1)
        assert found is not None
        link = Link(found)
        await link.open()
        return link

    async def story() -> None:
        old = await link_to(None)
        assert await ask(old, 1) == 200
        attempts[0].freeze()
        asked = [asyncio.create_task(ask(old, number)) for number in range(2, 22)]
        await asyncio.sleep(0)  # they are sent
        attempts.append(Attempt(stage, 2, config, class_name(WebhookSourceTask), {}))
        new = await link_to(old.endpoint)
        attempts[0].thaw()
        assert {await each for each in asked} == {503}, "confirmed by a task that cannot commit"
        assert [await ask(new, number) for number in (1, 2)] == [200, 200]
        new.close()

    try:
        asyncio.run(story())
        assert sorted(stage.visible()) == [1, 2]
    finally:
        for one in attempts:
            one.close()
