"""Validates the resources that a configuration names."""

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.promises import find_doubt, why_no_changes, why_no_pages
from ringfence.connectors.builtin.dlt_source.resources import SourceResources


def find_problem(config: ParsedConfig, resources: SourceResources, *, exactly_once: bool) -> tuple[str, str] | None:
    """Return a setting and its error, or None. exactly_once: whether exactly once is required."""
    if not resources.selection:
        return names.RESOURCES, "The source selects no resource: name those to read."
    by_page, changes_only = config.string(names.CHECKPOINT) == names.PAGE, config.boolean(names.CHANGES)
    for name, one in resources.selection.items():
        if by_page and (why := why_no_pages(one)):
            return (
                names.CHECKPOINT,
                f"Pages of {name} cannot be committed one by one: {why}. Set {names.CHECKPOINT}={names.PASS}, or "
                "row_order=asc if the API sorts by the cursor.",
            )
        if changes_only and (why := why_no_changes(one, resources.all_resources)):
            return names.CHANGES, f"Rows of {name} cannot be compared: {why}. Add one, or leave the resource out."
        if exactly_once and (why := find_doubt(one, resources.all_resources, changes_only=changes_only)):
            return (
                names.RESOURCES,
                f"{name} cannot be read exactly once: {why}. Change its incremental, leave the resource out of "
                "dlt.resources, or set exactly.once.support=requested.",
            )
    return None


def explain(config: ParsedConfig, resources: SourceResources) -> str:
    """Which resource makes the connector at least once, and why; "" if none does."""
    changes_only = config.boolean(names.CHANGES)
    for name, one in resources.selection.items():
        if why := find_doubt(one, resources.all_resources, changes_only=changes_only):
            return f"Resource {name}: {why}."
    return ""
