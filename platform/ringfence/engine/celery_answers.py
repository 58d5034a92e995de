"""Converts the refusal of a request to a Celery task's answer: a message and a status, never a trace.

Apart from the tasks, which every Celery app of a process gets once they are imported.
"""

from collections.abc import Callable

from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.requests.request import MalformedRequest, Refusal


def catch_refusals(call: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return the result of the call, or its refusal as an answer. Other errors are raised."""
    try:
        return call()
    except (Refusal, MalformedRequest, PluginError) as error:
        return to_refusal(error).answer()


def to_refusal(error: Refusal | MalformedRequest | PluginError) -> Refusal:
    """Return what the request is refused with after this error."""
    match error:
        case Refusal():
            return error
        case MalformedRequest():
            return Refusal(400, f"{error}. Web process and worker may be of different versions")
        case UnknownPlugin():
            return Refusal(404, error.message)
        case BadRequest():
            return Refusal(400, error.message)
        case _:
            return Refusal(500, error.message)
