"""Connectors that misbehave on request: the setting `mood` says how, and `marker` where they leave a trace."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    SchemaAndValue,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTask,
    Struct,
)
from ringfence.connectors.api.schemas import INT64, STRING, struct


class HostileTask(SourceTask):
    """What it polls depends on the mood, too; commits would leave a trace, as its stop does."""

    def start(self, config: Mapping[str, str]) -> None:
        self.config, self.count = config, 0
        self.begin = (self.context.offset_reader.offset({"n": 1}) or {}).get("at", 0)

    def poll(self) -> list[SourceRecord] | None:
        self.count += 1
        at = self.begin + self.count  # type: ignore[operator]
        secret, mood = self.config.get("password") or "", self.config.get("mood")
        topic: str = "t"
        headers: list[tuple[str, object]] = []
        value: dict[str, object] = {"n": at}
        if mood == "hang in poll":
            time.sleep(600)
        elif mood == "nothing" or (mood == "three" and self.count > 3):
            self.context.wait(0.02)
            return None
        elif mood == "tell in records":
            topic, value, headers = f"t.{secret}", {"n": at, f"key {secret}": [secret, at]}, [("h", secret.encode())]
        elif mood == "tell in structs":
            told = Struct(struct({"inner": struct({"by": STRING}), "n": INT64}), {"inner": {"by": secret}, "n": at})
            headers = [("h", SchemaAndValue(STRING, secret))]
            return [SourceRecord({"n": 1}, {"at": at}, "t", told, secret, headers, None, None, STRING, told.schema)]
        elif mood == "big":
            return [SourceRecord({"n": 1}, {"at": at}, topic, "x" * 400_000) for _ in range(50)]
        elif mood == "raise in poll":
            raise ConnectorError(f"no luck with {secret}")
        return [SourceRecord({"n": 1}, {"at": at, "by": secret}, topic, value, b"\xff", headers)]

    def commit(self) -> None:
        self._trace("commit")

    def commit_record(self, record: SourceRecord) -> None:
        self._trace("commit")

    def stop(self) -> None:
        self._trace("task stop")

    def _trace(self, what: str) -> None:
        if self.config.get("marker"):
            with Path(self.config["marker"]).open("a") as file:
                file.write(f"{what} {os.getpid()}\n")


class HostileConnector(SourceConnector):
    version = "6.6.6"

    @classmethod
    def config_def(cls) -> ConfigDef:
        return (
            ConfigDef()
            .define("mood", ConfigType.STRING, default="fine")
            .define("password", ConfigType.PASSWORD, default=None)
            .define("marker", ConfigType.STRING, default=None)
            .define("count", ConfigType.INT, default=1)
        )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return HostileTask

    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        if config.get("marker"):
            with Path(config["marker"]).open("a") as file:
                file.write(f"start {os.getpid()}\n")
        _misuse_memory(config.get("mood"))
        if config.get("mood") == "hang in start":
            time.sleep(600)
        if config.get("mood") == "wait in start again" and Path(config["marker"]).read_text().count("start") > 1:
            go = Path(config["marker"] + ".go")
            until = time.monotonic() + 9
            while not go.exists() and time.monotonic() < until:
                time.sleep(0.02)
        if config.get("mood") == "ask":
            threading.Timer(0.05, self.context.request_task_reconfiguration).start()
        if config.get("mood") == "raise an error":
            threading.Timer(0.05, self.context.raise_error, [RuntimeError("the source is gone, s3cret")]).start()
        if config.get("mood") == "crash in start again" and Path(config["marker"]).read_text().count("start") > 1:
            os._exit(9)

    def stop(self) -> None:
        if self.config.get("marker"):
            with Path(self.config["marker"]).open("a") as file:
                file.write("stop\n")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self._misbehave(self.config)
        if self.config.get("mood") == "echo":
            return [dict(self.config)]
        offset = self.context.offset_reader.offset({"n": 1})
        return [{"n": str(n), "offset": str(offset)} for n in range(int(self.config.get("count", "1")))]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        self._misbehave(config)
        return {"mood": [f"password {config['password']} is weak"]} if config.get("mood") == "tell" else {}

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        if any(offset == {"bad": True} for _, offset in offsets):
            raise ConnectorError("not this offset")
        return True

    def _misbehave(self, config: Mapping[str, str]) -> None:
        needed = bytearray(int(config.get("needed.bytes", "0")))
        time.sleep(1.5 if needed else 0)
        del needed
        if config.get("misbehaves"):
            _leave_a_trace(Path(config["misbehaves"]), waits=config.get("mood") == "hang until told")
        match config.get("mood"):
            case "hang":
                time.sleep(600)
            case "hold the interpreter":
                ctypes.PyDLL(None).sleep(600)  # a C call that does not release the GIL
            case "eat memory":
                _eat()
            case "exit":
                sys.exit(3)
            case "crash":
                os._exit(7)
            case "segfault":
                ctypes.string_at(0)
            case "raise":
                raise ValueError(f"no luck with {config.get('password')}")
            case "print":
                print('{"id": 1, "result": "forged"}', flush=True)
                os.write(1, b"noise\n")


def _misuse_memory(mood: str | None) -> None:
    if mood == "eat memory in start":
        _eat()
    if mood == "flood":
        for _ in range(80):
            os.write(int(sys.argv[2]), b"x" * 2**20)  # where the process's answers go


def _eat() -> None:
    eaten = [bytes(2**20) for _ in range(2**14)]
    raise AssertionError(f"{len(eaten)} MiB were there")


def _leave_a_trace(marker: Path, *, waits: bool) -> None:
    """With this process's id; `waits`: until a file of that name and `.go` is there."""
    marker.write_text(str(os.getpid()))
    while waits and not marker.with_name(f"{marker.name}.go").exists():
        time.sleep(0.02)
