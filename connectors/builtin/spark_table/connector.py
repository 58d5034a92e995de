"""SparkTableSource: a table that is too big for one task, each row once."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    ConfigDef,
    ConfigException,
    ConnectorError,
    ExactlyOnceSupport,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.files.places import PLACES, open_place, require
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.plan import parse_head, parse_part

CONFIG_DEF: Final = names.define()
for _place in PLACES.values():
    _place.define(CONFIG_DEF)


class SparkTableSourceConnector(SourceConnector):
    """The parts of a plan are dealt to `tasks.max` tasks, each of them a Spark job on an executor."""

    version: ClassVar[str] = "1.0.0"
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="A big table of Parquet files",
        summary="All rows of a folder of Parquet files, as Spark writes it, divided among many Spark tasks.",
        category=Category.FILES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "A table that stays as it is while it is read.",
            "pip install 'ringfence[files]' where the tasks run; 'ringfence[gcs]' for Google Cloud, 'ringfence[azure]' "
            "for Azure.",
        ),
        sample={"tasks.max": "4", "url": "file:///data/flights", "topic": "flights"},
    )

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask

        return SparkTableSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.context.trial:
            return [{**self._config, names.SHARE: "0/1", names.PREVIEW: "true"}]
        return [{**self._config, names.SHARE: f"{index}/{max_tasks}"} for index in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            parsed = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has said so already
        errors: dict[str, list[str]] = {}
        for kind in PLACES.values():
            for setting, problem in kind.find_problems(parsed):
                errors.setdefault(setting, []).append(problem)
        try:
            require("pyarrow", "Parquet files")
            with closing(open_place(parsed.string(URL), parsed)) as place:
                place.check()
        except (ConnectorError, OSError) as error:
            errors.setdefault(URL, []).append(str(error))
        return errors

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported: parts name rows of a content that is checked each time, and are committed before their rows."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Any offset may be deleted; a new one has the form of a plan's or of a part's."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.URL_KEY), str):
                raise ConnectorError(f"The partition {dict(partition)} must name the table under {names.URL_KEY!r}.")
            if offset is not None:
                (parse_part if names.PART_KEY in partition else parse_head)(offset)
        return True
