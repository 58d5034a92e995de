"""Tests a data source of PySpark: does it take its options, which columns has it, does it reach its source?"""

from collections.abc import Mapping

from ringfence.connectors.api import ConnectorError, Examination
from ringfence.connectors.builtin.pyspark_source import settings as names
from ringfence.connectors.builtin.pyspark_source.task import find_sources, open_reader, open_source, reach, read_schema
from ringfence.connectors.builtin.pyspark_source.types import describe
from ringfence.connectors.sdk.diagnosis import diagnose, summarise


def examine(config: Mapping[str, str]) -> Examination:
    """Return the columns of the data source, or why it cannot be read."""
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
    installed = sorted(find_sources())
    if installed:
        return f"Choose the data source. Installed here: {', '.join(installed)}."
    return f"No data source is installed here. Install a package with an entry point of the group {names.GROUP}."
