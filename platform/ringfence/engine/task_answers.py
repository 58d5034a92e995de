"""What a Celery task answers where a request is refused: in words, and with a status, never with a trace."""

from collections.abc import Callable

from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.requests.refused import Refused
from ringfence.requests.request import Malformed


def catch_refusals(call: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What the call returns, or the refusal that it raises as an answer. Other errors come out."""
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
