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
    except Refusal as refusal:
        return refusal.answer()
    except MalformedRequest as error:
        return Refusal(400, f"{error}. Web process and worker may be of different versions").answer()
    except UnknownPlugin as error:
        return Refusal(404, error.message).answer()
    except BadRequest as error:
        return Refusal(400, error.message).answer()
    except PluginError as error:
        return Refusal(500, error.message).answer()
