"""Converts the refusal of a request to a Celery task's answer: a message and a status, never a trace."""

from collections.abc import Callable

from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.requests.refused import Refused
from ringfence.requests.request import Malformed


def catch_refusals(call: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return the result of the call, or its refusal as an answer. Other errors are raised."""
    try:
        return call()
    except Refused as refused:
        return refused.answer()
    except Malformed as error:
        return Refused(400, f"{error}. Web process and worker may be of different versions").answer()
    except UnknownPlugin as error:
        return Refused(404, error.message).answer()
    except BadRequest as error:
        return Refused(400, error.message).answer()
    except PluginError as error:
        return Refused(500, error.message).answer()
