"""SqlSource's times of any year: texts, offsets and time zones without loss."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import DistantDate, DistantTimestamp
from ringfence.connectors.builtin.sql.modes import _as_postgres, offset_of, position_in
from ringfence.connectors.builtin.sql.time_texts import (
    BEGINNING,
    DAY_US,
    END,
    as_datetime,
    micros_of,
    micros_of_text,
    parse_time,
    text_of_micros,
    to_local,
    to_utc,
)
from ringfence.connectors.sdk.values.moments import date_of_day, day_number, format_date, millis, timestamp_of_micros

FIRST, LAST = -2_440_588 * DAY_US, 106_751_000 * DAY_US
"""About what PostgreSQL's timestamps hold."""
micros = st.integers(FIRST, LAST)


@given(micros)
def test_postgres_text_is_read_as_it_is_written(moment: int) -> None:
    assert micros_of_text(_as_postgres(moment), UTC) == moment
    assert micros_of_text(text_of_micros(moment).removeprefix("+"), UTC) == moment


@given(st.one_of(micros, st.just(BEGINNING), st.just(END)))
def test_a_position_survives_its_offset(moment: int) -> None:
    offset = offset_of(moment)
    assert position_in(offset) == moment
    assert all(isinstance(number, int) for number in offset.values())


@given(micros, st.sampled_from(["Asia/Kolkata", "Europe/Berlin", "America/New_York"]))
def test_a_local_time_is_converted_back(moment: int, name: str) -> None:
    zone = ZoneInfo(name)
    back = to_utc(to_local(moment, zone), zone)
    assert back == moment or to_local(back, zone) == to_local(moment, zone)  # the hour that comes twice


@given(st.datetimes(), st.sampled_from([UTC, ZoneInfo("Asia/Kolkata")]))
def test_moments_are_those_of_python(moment: datetime, zone: ZoneInfo) -> None:
    position = micros_of(moment, zone)
    assert micros_of_text(str(moment), zone) == position
    converted = timestamp_of_micros(position)
    assert millis(converted) == position // 1000
    if isinstance(converted, datetime):
        assert as_datetime(position) == moment.replace(tzinfo=zone)
    else:
        assert isinstance(converted, DistantTimestamp)


@given(st.integers(-(10**9), 10**9))
def test_days_of_any_year(day: int) -> None:
    text = format_date(day)
    year, month, at = text[1:].split("-") if text[0] in "+-" else text.split("-")
    assert day_number(-int(year) if text[0] == "-" else int(year), int(month), int(at)) == day
    value = date_of_day(day)
    assert value == (date.fromisoformat(text) if isinstance(value, date) else DistantDate(day))


@pytest.mark.parametrize("text", ["infinity", "", "2024-13-01", "2024-02-30", "2024-01-02 24:00:01", "2024-01-02 1:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError):
        micros_of_text(text, UTC)


def test_times_of_day() -> None:
    assert parse_time("24:00:00") == (DAY_US, None)
    assert parse_time("01:02:03.5-03:30") == (3_723_500_000, -12_600_000_000)
    for text in ("25:00", "12:60", "12", "24:00:00.1", ""):
        with pytest.raises(ValueError, match="not a time of day"):
            parse_time(text)
