"""PySparkSource: runs any PySpark data source with a streaming reader as a connector."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.pyspark_source import settings as names
from ringfence.connectors.builtin.pyspark_source.settings import CONFIG_DEF
from ringfence.connectors.sdk.diagnosis import diagnose, summarise


class PySparkSourceConnector(SourceConnector):
    """One task: the offsets of a data source are one sequence."""

    version: ClassVar[str] = "1.0.0"
    own_settings = CONFIG_DEF
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="A data source of PySpark",
        summary="Any Python data source of PySpark 4 with a streaming reader, without a Spark job.",
        category=Category.APPLICATIONS,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=("A package with an entry point of the group ringfence.data_sources.",),
        sample={"tasks.max": "1", "data.source": "weather", "topic": "weather"},
        icon="sparkles",
    )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        from ringfence.connectors.builtin.pyspark_source.task import PySparkSourceTask

        return PySparkSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        if not config.get(names.SOURCE):
            return {}  # the definition has already reported it
        from ringfence.connectors.builtin.pyspark_source.task import open_reader, open_source, read_schema
        from ringfence.connectors.builtin.pyspark_source.types import describe

        try:
            source = open_source(config)
            schema = read_schema(source)
            describe(schema)
            open_reader(source, schema)
        except ConnectorError as error:
            return {names.SOURCE: [str(error)]}
        except Exception as error:  # noqa: BLE001 - from the data source: it refuses its options
            return {names.SOURCE: [refusal(error)]}
        return {}

    def examine(self, config: Mapping[str, str]) -> Examination:
        """Open the data source, and have it reach what it reads."""
        return examine(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported: rows are committed with the offset after them, and a plan before its rows."""
        return ExactlyOnceSupport.SUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        return "It depends on the data source: between the same two offsets it must give the same rows each time."

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one has the data source's own form under `offset`."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.SOURCE_KEY), str):
                raise ConnectorError(f"The partition {dict(partition)} must have the name under {names.SOURCE_KEY!r}.")
            if offset is not None and not isinstance(offset.get(names.OFFSET), dict):
                raise ConnectorError(f"The offset {dict(offset)} must have an object under {names.OFFSET!r}.")
        return True


def examine(config: Mapping[str, str]) -> Examination:
    """Return the columns of the data source, or why it cannot be read."""
    from ringfence.connectors.builtin.pyspark_source.task import open_reader, open_source, reach, read_schema
    from ringfence.connectors.builtin.pyspark_source.types import describe

    name = config.get(names.SOURCE, "").strip()
    if not name:
        return Examination({names.SOURCE: [_describe_choice()]})
    try:
        source = open_source(config)
        schema = read_schema(source)
        describe(schema)
        reader = open_reader(source, schema)
    except ConnectorError as error:
        return Examination({names.SOURCE: [str(error)]})
    except Exception as error:  # noqa: BLE001 - from the data source: it refuses its options
        return Examination({names.SOURCE: [refusal(error)]})
    try:
        reach(reader)
    except Exception as error:  # noqa: BLE001 - from the data source: it does not reach what it reads
        diagnosis = diagnose(error, f"the source of {name}")
        words = diagnosis.text if diagnosis else f"The data source {name} does not reach what it reads."
        return Examination({names.SOURCE: [f"{words} It says: {type(error).__name__}: {error}"]})
    finally:
        if hasattr(reader, "stop"):
            reader.stop()
    return Examination(summary=f"{name}, {summarise('column', schema.names)}.")


def refusal(error: Exception) -> str:
    """Return the message for what a data source raises while it is opened."""
    return (
        f"The data source refuses these options: {type(error).__name__}: {error}. Options are settings with the prefix "
        f"{names.OPTION}, under Other properties."
    )


def _describe_choice() -> str:
    from ringfence.connectors.builtin.pyspark_source.task import find_sources

    installed = sorted(find_sources())
    if installed:
        return f"Choose the data source. Installed here: {', '.join(installed)}."
    return f"No data source is installed here. Install a package with an entry point of the group {names.GROUP}."
