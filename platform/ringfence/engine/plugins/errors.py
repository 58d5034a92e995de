"""Errors of calls into a plugin. All of them are sent between the processes."""

from typing import ClassVar


class PluginError(Exception):
    """The plugin raised an error. trace: its stack trace, if there is one. Message and trace contain no secrets."""

    kind: ClassVar[str] = "failed"

    def __init__(self, message: str, trace: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.trace = trace


class PluginTimeout(PluginError):
    """There was no answer in time; the process was killed."""

    kind = "timeout"


class PluginStarting(PluginTimeout):
    """There was no answer in time because the process is still starting. It continues, and can answer the next call."""


class PluginCrash(PluginError):
    """The process ended during the call. alone: no other call was running in it, so this call is the cause."""

    kind = "crash"

    def __init__(self, message: str, trace: str | None = None, *, alone: bool = True) -> None:
        super().__init__(message, trace)
        self.alone = alone


class OutOfMemory(PluginError):
    """The call needed more memory than it may have. Its process is not used again."""

    kind = "memory"


class UnknownPlugin(PluginError):
    """No plugin with this name is installed (a client error, 400)."""

    kind = "unknown_plugin"


class BadRequest(PluginError):
    """The request is inconsistent, for example with a config for another connector class (a client error, 400)."""

    kind = "bad_request"


class OffsetsNeeded(PluginError):
    """The connector reads its source offsets, and was to be started without them: start it with them."""

    kind = "offsets_needed"


class OffsetsRefused(PluginError):
    """The connector refuses the offsets (a client error, 400)."""

    kind = "offsets_refused"


_BY_KIND = {
    cls.kind: cls
    for cls in (
        PluginError,
        PluginTimeout,
        PluginCrash,
        OutOfMemory,
        UnknownPlugin,
        BadRequest,
        OffsetsNeeded,
        OffsetsRefused,
    )
}


def to_wire(error: PluginError) -> dict[str, object]:
    return {"kind": error.kind, "message": error.message, "trace": error.trace}


def from_wire(body: dict[str, object]) -> PluginError:
    trace = body.get("trace")
    cls = _BY_KIND.get(str(body.get("kind")), PluginError)
    return cls(str(body.get("message")), trace if isinstance(trace, str) else None)
