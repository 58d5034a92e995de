"""Opens publication and slot when a task starts, and checks that they match the committed offset."""

from typing import Final, NamedTuple

from ringfence.connectors.api import SourceOffset
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.builtin.postgres.capture import captured_tables
from ringfence.connectors.builtin.postgres.offsets import Origin, Position, between, position_of
from ringfence.connectors.builtin.postgres.setup import Setup
from ringfence.connectors.builtin.postgres.timelines import find_timeline

_TRIES: Final = 3


class StreamStart(NamedTuple):
    """start: the position at which the stream starts; origin: the server it belongs to; new: nothing is committed yet;
    offset: `start` as a source offset.
    """

    start: Position
    origin: Origin
    new: bool

    @property
    def offset(self) -> SourceOffset:
        return between(self.start.lsn, self.origin, 0, 0)


def prepare_publication(setup: Setup) -> None:
    """Create the publication if it is missing. Raises `ConnectorError`."""
    slots.prepare_publication(
        setup.session,
        setup.publication,
        setup.settings.string(names.AUTOCREATE),
        lambda: captured_tables(setup.session, setup.selection),
        via_root=setup.settings.boolean(names.VIA_ROOT),
    )


def open_slot(setup: Setup, committed: SourceOffset | None) -> StreamStart:
    """Find the slot, or create it if nothing is committed. Raises `ConnectorError`, and `LostPosition` if changes would
    be lost.
    """
    session, name = setup.session, setup.slot
    position = position_of(committed) if committed else None
    slot = slots.find_slot(session, name)
    for _ in range(_TRIES):  # somebody may drop the slot again, for example that of an earlier connector
        if slot is not None or position is not None:
            break
        slots.create_slot(session, name, failover=setup.settings.boolean(names.SLOT_FAILOVER))
        slot = slots.find_slot(session, name)
    slots.check_slot(name, slot, setup.server.database, position.lsn if position else None)
    assert slot is not None
    ((system,),) = session.query("SELECT system_identifier::text FROM pg_control_system()")
    if position is not None and position.system not in (None, system):
        raise slots.LostPosition(
            "The committed offset belongs to another database server: this one was created later, and the changes in "
            "between are unknown. To read from this server, stop the connector, reset its offsets and resume it; or "
            "set another topic.prefix."
        )
    start = position or Position(slot.confirmed or 0)
    slots.check_position(session, start.lsn)
    timeline = find_timeline(session, setup.server, position)
    return StreamStart(start, Origin(str(system), timeline), committed is None)


def renew_slot(setup: Setup) -> StreamStart:
    """Open the slot from a new position after changes were lost; drop it if it is invalidated. Raises
    `ConnectorError`.
    """
    slot = slots.find_slot(setup.session, setup.slot)
    if slot is not None and slot.wal_status == "lost":
        slots.drop_slot(setup.session, setup.slot)
    return open_slot(setup, None)
