"""DltSource: reads dlt sources, exactly once where their incrementals allow it."""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    Choice,
    ConfigException,
    ConnectorError,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.rest_config import parse_object
from ringfence.connectors.builtin.dlt_source.settings import CONFIG_DEF
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary

_EXTRA: Final = "DltSource needs dlt, which is not installed here: pip install 'ringfence[dlt]' on every worker."


class DltSourceConnector(SourceConnector):
    """Resources are distributed to up to `tasks.max` tasks; each task reads its resources in turn."""

    version: ClassVar[str] = "1.0.0"
    own_settings = CONFIG_DEF
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="REST APIs and dlt sources",
        summary="Any REST API, by the address of a list, and any dlt source in an installed package.",
        category=Category.APPLICATIONS,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "An incremental for each resource: a cursor such as the time of the last change. Without one, delivery "
            "is at least once.",
            "pip install 'ringfence[dlt]' where the tasks run.",
        ),
        sample={
            "tasks.max": "1",
            "rest.url": "https://api.example.com/orders",
            "rest.key": "id",
            "rest.cursor": "updated_at",
            "rest.cursor.param": "since",
            "rest.cursor.start": "2026-01-01T00:00:00Z",
            "topic.prefix": "shop.",
        },
        icon="globe",
        keywords=(
            "http",
            "json",
            "saas",
            "airtable",
            "asana",
            "github",
            "google analytics",
            "google sheets",
            "hubspot",
            "jira",
            "matomo",
            "notion",
            "pipedrive",
            "salesforce",
            "shopify",
            "slack",
            "stripe",
            "zendesk",
        ),
        selects=(
            names.RECORDS,
            names.PAGES,
            names.PAGE_PARAM,
            names.PAGE_FIRST,
            names.PAGE_SIZE,
            names.PAGE_SIZE_PARAM,
            names.NEXT,
            names.KEY,
            names.CURSOR,
            names.CURSOR_PARAM,
            names.CURSOR_START,
        ),
    )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        try:
            from ringfence.connectors.builtin.dlt_source.task import DltSourceTask
        except ModuleNotFoundError as error:
            raise ConnectorError(_EXTRA) from error
        return DltSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        from ringfence.connectors.builtin.dlt_source.resources import open_resources

        super().start(config)
        self._resources = list(open_resources(CONFIG_DEF.parse(config)).selection)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, len(self._resources))
        dealt = [self._resources[index::count] for index in range(count)]
        return [{**self.config, names.TASK_RESOURCES: json.dumps(each)} for each in dealt]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            settings = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has already reported it
        if TRANSACTION_BOUNDARY in (errors := self.check_settings(config)):
            return errors
        try:
            from ringfence.connectors.builtin.dlt_source.resources import find_problem, open_resources
        except ModuleNotFoundError:
            return {"connector.class": [_EXTRA]}
        try:
            resources = open_resources(settings)
        except ConnectorError as error:
            setting, colon, _ = str(error).partition(":")
            return {setting if colon and setting in CONFIG_DEF.keys else names.REST: [str(error)]}
        required = config.get("exactly.once.support", "").strip().lower() == "required"
        problem = find_problem(settings, resources, exactly_once=required)
        return {problem[0]: [problem[1]]} if problem else {}

    def check_settings(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        if self.must_define_transaction_boundaries(config) and transaction_boundary(config, "connector") != "connector":
            errors[TRANSACTION_BOUNDARY] = [
                f"Remove it, or set {TRANSACTION_BOUNDARY}=connector: with {names.CHECKPOINT}={names.PASS}, a whole "
                "reading is one transaction."
            ]
        for name in (names.REST, names.AUTH, names.ARGUMENTS, names.SECRETS):
            try:
                parse_object(name, config.get(name))
            except ConnectorError as error:
                errors[name] = [str(error)]
        return errors

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """Return the resources, and what each of them promises."""
        from ringfence.connectors.builtin.dlt_source.resources import find_doubt, open_resources

        settings = CONFIG_DEF.parse({**config, names.RESOURCES: ""})
        resources, changes_only = open_resources(settings), settings.boolean(names.CHANGES)
        doubts = {
            name: find_doubt(one, resources.all_resources, changes_only=changes_only)
            for name, one in resources.all_resources.items()
        }
        return {
            names.RESOURCES: [
                Choice(name, f"at least once: {doubt}" if doubt else "exactly once") for name, doubt in doubts.items()
            ]
        }

    def examine(self, config: Mapping[str, str]) -> Examination | None:
        """Look at an answer of the API. Other sources are not tested."""
        if (config.get(names.SOURCE, "").strip() or names.REST_API) != names.REST_API:
            return None
        if config.get(names.REST, "").strip() and not config.get(names.URL, "").strip():
            return None
        try:
            from ringfence.connectors.builtin.dlt_source.examination import examine
        except ModuleNotFoundError:
            return Examination({"connector.class": [_EXTRA]})
        return examine(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Unsupported if the incremental of a resource repeats or misses rows."""
        try:
            from ringfence.connectors.builtin.dlt_source.resources import find_doubt, open_resources

            settings = CONFIG_DEF.parse(config)
            resources = open_resources(settings)
        except (ModuleNotFoundError, ConfigException, ConnectorError):
            return ExactlyOnceSupport.SUPPORTED  # it cannot run; `validate` reports why, and must not be preempted
        changes_only = settings.boolean(names.CHANGES)
        doubtful = any(
            find_doubt(one, resources.all_resources, changes_only=changes_only) for one in resources.selection.values()
        )
        return ExactlyOnceSupport.UNSUPPORTED if doubtful else ExactlyOnceSupport.SUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        try:
            from ringfence.connectors.builtin.dlt_source.resources import explain, open_resources

            settings = CONFIG_DEF.parse(config)
            return explain(settings, open_resources(settings))
        except (ModuleNotFoundError, ConfigException, ConnectorError):
            return ""  # `validate` says why

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED

    def must_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return whether a whole reading of a resource is one transaction."""
        return (config.get(names.CHECKPOINT, "").strip() or names.PASS) == names.PASS

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one contains dlt's own state, as GET shows it."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.SOURCE_KEY), str) or not isinstance(
                partition.get(names.RESOURCE_KEY), str
            ):
                raise ConnectorError(
                    f"The partition {dict(partition)} must have strings under {names.SOURCE_KEY!r} and "
                    f"{names.RESOURCE_KEY!r}."
                )
            needed = names.ROWS if names.BUCKET in partition else names.STATE
            if offset is not None and not isinstance(offset.get(needed), dict):
                raise ConnectorError(f"The offset {dict(offset)} must have an object under {needed!r}.")
        return True
