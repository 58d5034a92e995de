"""Checks who may use Java plugins: `file.roots` and `egress.allow` do not apply to them, so `edit` is not enough.

The worker decides which class is a Java plugin, since only it knows the contents of `plugin.path`. The web process says
whether the user has the permission.
"""

from ringfence.engine.plugins.host import PluginHost
from ringfence.fencing.clock import Deadline
from ringfence.requests.refusal import Refusal


def check_permission(plugins: PluginHost, class_name: str, limit: Deadline, *, java: bool) -> None:
    """Raise `Refusal` (403) for a Java plugin without the permission, and `UnknownPlugin` for an unknown one."""
    if not java and class_name and plugins.is_java(class_name, limit.slice(plugins.call_seconds)):
        raise Refusal(
            403,
            f"{class_name} is a Java plugin: it reads files and opens connections as the worker's user. To configure, "
            "validate, preview or try out such a connector, you need the permission java-plugins. Ask an administrator "
            "for it",
        )
