"""The settings of a Java connector's processes. Kafka Connect has no counterpart."""

from typing import Final

from ringfence.connectors.api import Choices, ConfigDef, ConfigType, Importance, OneOf, Width

JAVA_PROCESS: Final = "java.process"
OWN: Final = "own"
SHARED: Final = "shared"


def java_keys() -> ConfigDef:
    """Return their definitions."""
    return ConfigDef().define(
        JAVA_PROCESS,
        ConfigType.STRING,
        default=OWN,
        validator=OneOf(OWN, SHARED),
        recommender=Choices(OWN, SHARED),
        importance=Importance.LOW,
        documentation="Whether each task has a Java process of its own, or shares one with other tasks on its machine "
        "that set this, too. That takes less memory, and finds the connector's code compiled. But what ends the "
        "process, such as a full heap, ends all of these tasks, and they are restarted.",
        group="Common",
        width=Width.SHORT,
        display_name="Java process",
    )
