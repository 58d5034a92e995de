"""One attempt of one task: the source task's start steps and its transactions, in steps that may lie ages apart."""

from dataclasses import replace

from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.config_view import DesiredState, judge
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_state import ConnectorState, Placement
from ringfence.fencing.topics.topic_ids import Topics
from tests.fencing.model.kafka import Fenced
from tests.fencing.model.producer import Producer
from tests.fencing.model.world import GROUP, WAIT, C, Data, OffsetRecord, Rules, Steps, Violation, World, take_id

BATCHES_IN_A_TRANSACTION = 2


class Attempt:
    """`steps` is what it does, a step at a time; `follow` is its other thread, which reads the config topic.

    fuse: steps after which it is frozen.
    """

    def __init__(self, world: World, task: TaskId, placement: Placement) -> None:
        self.spec = TaskSpec(
            Connection(""), GROUP, Topics("config", "offsets", "status", "events"), task, placement, "", {}, {}, {}
        )
        self.world = world
        self.frozen = False
        self.fuse: int | None = None
        self.done = False
        self.started = False
        self.producer: Producer | None = None
        self.steps = self._run()
        self._view = ConnectorState(C)
        self._position = 0

    def __repr__(self) -> str:
        placement = self.spec.placement
        return f"{self.spec.task}@{placement.generation}.{placement.attempt}"

    @property
    def verdict(self) -> DesiredState:
        """What the view makes of the config topic, as far as it has read."""
        view, placement = self._view, self.spec.placement
        if not self.world.rules.placement_attempts and view.generation == placement.generation:
            view = replace(view, placements={self.spec.task.task: placement})
        return judge(view, self.spec)

    def follow(self, until: int | None = None) -> None:
        """Take in what the config topic gives."""
        log = self.world.kafka.logs["config"]
        end = min(log.stable, log.end if until is None else until)
        for offset, record in log.committed(self._position, end):
            self._view = self.world.apply(self._view, offset, record)  # type: ignore[arg-type]
        self._position = max(self._position, end)

    def advance(self, count: int) -> None:
        """At most so many steps; fewer where it waits for something, or ends."""
        for _ in range(count):
            if self.fuse == 0:
                self.frozen, self.fuse = True, None
                return
            if self.done:
                return
            try:
                if next(self.steps) is WAIT:
                    return
            except StopIteration:
                self.done = True
            if self.fuse is not None:
                self.fuse -= 1

    def die_late(self, log: str) -> None:
        """SIGKILL while its next request to this log is under way, which arrives when its transaction is over.

        It is refused where somebody has taken the id since.
        """
        partitions = self._partitions()
        self.kill()
        epoch = -1 if self.producer is None else self.producer.epoch
        if partitions and self.world.kafka.holds(self.spec.transactional_id, epoch):
            number = self.world.counts[partitions[0]] + 10
            late = Data(partitions[0], number, self.world.run) if log == "data" else OffsetRecord(partitions[0], number)
            self.world.kafka.arrive_late(self.spec.transactional_id, log, late)

    def kill(self) -> None:
        """SIGKILL: what is open stays open."""
        self.steps.close()
        self.done = True

    def _read_config(self, end: int) -> Steps:
        while self._position < end:
            self.follow(end)
            if self._position < end:
                yield WAIT

    def _run(self) -> Steps:
        yield from self._read_config(self.world.end_of("config"))
        while True:
            while (verdict := self.verdict) is not DesiredState.RUN:  # 1, 2
                if verdict is DesiredState.END:
                    return
                yield WAIT
            self.started = True
            try:
                yield from self._life()
                return
            except Fenced:
                self.started = False
                yield None
                yield from self._read_config(self.world.end_of("config"))
                if self.verdict is DesiredState.END:
                    return

    def _life(self) -> Steps:
        world, rules = self.world, self.world.rules
        early = {log: world.end_of(log) for log in ("config", "offsets")}
        positions: dict[int, int] = {}
        if not rules.init_before_offsets:
            yield from self._read_offsets(world.end_of("offsets"), positions)
        yield None
        yield None  # the client connects: a good moment to freeze
        yield None
        holders: list[Producer] = []
        yield from take_id(world, self.spec.transactional_id, holders)  # 3
        self.producer = holders[0]
        newest = world.placements.get(self.spec.task, self.spec.placement)
        yield None
        if rules.check_after_init:
            yield from self._read_config(world.end_of("config") if rules.end_after_init else early["config"])  # 4
            if self.verdict is DesiredState.END:
                return
            mine = self.spec.placement
            counts = rules == Rules() or not rules.placement_attempts  # else something worse is looked for
            if counts and newest.generation == mine.generation and newest.attempt > mine.attempt:
                raise Violation(f"{self} took the id from attempt {newest.attempt}, which had been placed before")
            yield None
        run = world.run
        if rules.init_before_offsets:
            yield from self._read_offsets(
                world.end_of("offsets") if rules.end_after_init else early["offsets"], positions
            )  # 6
        yield from self._poll(self.producer, positions, run)  # 8

    def _read_offsets(self, end: int, positions: dict[int, int]) -> Steps:
        log = self.world.kafka.logs["offsets"]
        yield None
        while log.stable < end and not self.world.rules.read_raw:
            if self.verdict is DesiredState.END:
                return
            yield WAIT
        for _, record in log.marked(0, end):
            assert isinstance(record, OffsetRecord)
            positions[record.partition] = record.number or 0

    def _partitions(self) -> list[int]:
        config = self._view.tasks[self.spec.task.task].config if self.spec.task.task in self._view.tasks else {}
        return [int(number) for number in config.get("partitions", "").split()]

    def _poll(self, producer: Producer, positions: dict[int, int], run: int) -> Steps:
        partitions = self._partitions()
        batches = 0
        while True:
            yield None
            verdict = self.verdict
            if batches and (verdict is not DesiredState.RUN or batches >= BATCHES_IN_A_TRANSACTION):
                producer.append([("offsets", OffsetRecord(each, positions[each])) for each in partitions])
                yield None
                yield None  # the client waits for the records to be stored
                producer.commit()
                batches = 0
                continue
            if verdict is DesiredState.END:
                return
            if verdict is not DesiredState.RUN or not partitions:
                yield WAIT
                continue
            for partition in partitions:
                positions[partition] = positions.get(partition, 0) + 1
            producer.append([("data", Data(partition, positions[partition], run)) for partition in partitions])
            batches += 1
