"""Creates a connector instance for one call."""

from collections.abc import Mapping, Sequence
from typing import cast

from ringfence.connectors.api import SourceConnector, SourceOffset, SourcePartition
from ringfence.connectors.sdk.delivery import chosen_boundary, with_boundary
from ringfence.engine.plugins.instances import InstanceContext, SnapshotReader, check_shape


def ask_task_configs(
    cls: type[SourceConnector],
    config: Mapping[str, str],
    most: int,
    offsets: Sequence[tuple[SourcePartition, SourceOffset]] = (),
) -> list[dict[str, str]]:
    """Return `task_configs(most)` of a new instance. Raises what the connector raises, and for a wrong form."""
    connector = cls()
    connector.context = InstanceContext(SnapshotReader(offsets))
    try:
        connector.start(with_boundary(connector, config))
        configs = connector.task_configs(most)
        check_shape(config["name"], configs)
        return [{**each, **chosen_boundary(connector, config)} for each in configs]
    finally:
        connector.stop()


def list_errors(answer: Mapping[str, object]) -> list[str]:
    """Return each error of a validation's answer, after its setting."""
    values = [each["value"] for each in cast("list[dict[str, dict[str, object]]]", answer["configs"])]
    return [f"{value['name']}: {error}" for value in values for error in cast("list[str]", value["errors"])]
