"""What a transform is: it changes one record at a time, between the connector and the converters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from connectors.api import ConfigDef, SourceRecord


class Transform(ABC):
    """Changes or drops records. One instance serves one task, on one thread."""

    name: ClassVar[str]
    """The name in `transforms.<alias>.type`."""
    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """The transform's own settings, without the prefix (`transforms.<alias>.`)."""

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings, prefix stripped. Raises `ConfigException`."""

    @abstractmethod
    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """The record to go on with, the given one where nothing changes, or None to drop it.

        A changed record is a new object: the connector's own record stays as it is. Raises `ConnectorError`.
        """

    def close(self) -> None:  # noqa: B027 - optional to override
        """Free what `configure` took."""
