"""What can come of a call into a plugin, other than its answer. All of them travel between the processes."""

from typing import ClassVar


class PluginError(Exception):
    """The plugin's own failure. `trace`: its stack trace, where there is one. Neither holds a secret of the config."""

    kind: ClassVar[str] = "failed"

    def __init__(self, message: str, trace: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.trace = trace


class PluginTimeout(PluginError):
    """No answer in time; the process that held the call was killed."""

    kind = "timeout"


class PluginStarting(PluginTimeout):
    """No answer in time, since the process is still starting: it goes on, and answers the next call."""


class PluginCrash(PluginError):
    """The process ended during the call. `alone`: no other call was under way in it, so this one is to blame."""

    kind = "crash"

    def __init__(self, message: str, trace: str | None = None, *, alone: bool = True) -> None:
        super().__init__(message, trace)
        self.alone = alone


class UnknownPlugin(PluginError):
    """No plugin of that name is installed (a client's error, 400)."""

    kind = "unknown_plugin"


class BadRequest(PluginError):
    """The request contradicts itself, such as a config for another connector class (a client's error, 400)."""

    kind = "bad_request"


class OffsetsRefused(PluginError):
    """The connector refuses the offsets that it was shown (a client's error, 400)."""

    kind = "offsets_refused"


_BY_KIND = {
    cls.kind: cls for cls in (PluginError, PluginTimeout, PluginCrash, UnknownPlugin, BadRequest, OffsetsRefused)
}


def to_wire(error: PluginError) -> dict[str, object]:
    return {"kind": error.kind, "message": error.message, "trace": error.trace}


def from_wire(body: dict[str, object]) -> PluginError:
    trace = body.get("trace")
    cls = _BY_KIND.get(str(body.get("kind")), PluginError)
    return cls(str(body.get("message")), trace if isinstance(trace, str) else None)
