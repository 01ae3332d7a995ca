"""Times as people write them, as whole ticks since 1970."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, NamedTuple, Optional, Tuple, Union
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from . import _native
from ._errors import SchemaError

#: Anything that names a point in time; an ``int`` counts ticks of the table's unit since 1970, and
#: text is what the command takes: ``2013``, ``2013-02-08T17:30``, ``2013-02-08T17:30Z``, ``-1h``,
#: ``@1700000000``.
Time = Union[dt.datetime, dt.date, np.datetime64, str, int, np.integer]

#: Anything that names a length of time; an ``int`` counts ticks of the table's unit.
Interval = Union[dt.timedelta, np.timedelta64, str, int, np.integer]

NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
I64_MIN, I64_MAX = -(2**63), 2**63 - 1

#: Units of NumPy's longer than a second.
SECONDS_OF_STEPS = {"W": 7 * 86_400, "D": 86_400, "h": 3_600, "m": 60}

_EPOCH = dt.datetime(1970, 1, 1)
_DAYS_EPOCH = _EPOCH.toordinal()
#: Units of NumPy's whose values are calendar days: ones without a time of day.
_CALENDAR = ("D", "W", "M", "Y")
_TIME_OF_DAY = re.compile(r"T?([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9])(?:[.,]([0-9]{1,9}))?)?)?")
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?")


class TimeType(NamedTuple):
    """Unit and zone of a column of times."""

    unit: str
    zone: Optional[str]


def zone_info(name: str) -> dt.tzinfo:
    """The zone of this name, which is that of an IANA zone or an offset such as ``+02:00``."""
    if name in ("UTC", "Z", "Etc/UTC"):
        return dt.timezone.utc
    if fixed := _OFFSET.fullmatch(name):
        sign, hours, minutes = fixed.groups()
        offset = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return dt.timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise SchemaError(f"there is no time zone {name!r} on this machine: install the package tzdata") from error


def zone_name(value: dt.datetime) -> Optional[str]:
    """The zone of a time: its IANA name, or its offset where it has no other."""
    offset = value.utcoffset()
    if offset is None:
        return None
    # Of ``zoneinfo`` and of pytz.
    name = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)
    if name is not None or value.tzinfo is dt.timezone.utc:
        return name or "UTC"
    minutes, rest = divmod(offset, dt.timedelta(minutes=1))
    if rest:
        raise SchemaError(f"{value!r} has an offset that is not whole in minutes, which no zone of a table has")
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _nanos(value: dt.datetime) -> int:
    """Nanoseconds since 1970 by the calendar and clock of ``value``."""
    since = value.replace(tzinfo=None) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    # A pandas Timestamp has nanoseconds as well.
    return micros * 1_000 + int(getattr(value, "nanosecond", 0))


def _localised(nanos: int, zone: Optional[str]) -> int:
    """Nanoseconds in UTC of a reading of the clocks of ``zone``. A reading that occurs twice, or never, is an error."""
    return nanos if zone is None else _native.utc_nanos(nanos, zone)


def _of_day(day: int, zone: Optional[str]) -> int:
    """Nanoseconds at which a day begins, counted from 1970: at midnight, unless the zone's clocks skip or repeat it."""
    return day * 86_400 * NANOS["s"] if zone is None else _native.day_nanos(day, zone)


def _need_zone(zone: Optional[str], written: object) -> None:
    if zone is None:
        raise SchemaError(f"{written!r} has a time zone and the table's times have none: remove it, or convert it")


def _of_numpy(value: np.datetime64, zone: Optional[str]) -> int:
    if np.isnat(value):
        raise SchemaError("NaT is no time")
    unit, count = np.datetime_data(value.dtype)
    if unit in ("ps", "fs", "as"):
        raise SchemaError(f"{value!r} is finer than a nanosecond")
    if unit in NANOS:
        return _localised(int(value.astype(np.int64)) * count * NANOS[unit], zone)
    seconds = value.astype("datetime64[s]")
    # NumPy wraps silently, and then the way back leads elsewhere.
    if seconds.astype(value.dtype) != value:
        raise SchemaError(f"{value!r} is beyond the seconds that 64 bits count")
    ticks = int(seconds.astype(np.int64))
    if unit in _CALENDAR:
        return _of_day(ticks // 86_400, zone)
    return _localised(ticks * NANOS["s"], zone)


def nanos_of(value: Time, kind: TimeType) -> int:
    """Nanoseconds since 1970, in UTC if the column has a zone. A time without a zone is one of the column's zone."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value) * NANOS[kind.unit]
    if isinstance(value, np.datetime64):
        return _of_numpy(value, kind.zone)
    if isinstance(value, str):
        return _native.time_nanos(value, kind.unit, kind.zone)
    if value is None or value != value:
        raise SchemaError(f"{value!r} is no time")
    if isinstance(value, dt.datetime):
        offset = value.utcoffset()
        if offset is None:
            return _localised(_nanos(value), kind.zone)
        _need_zone(kind.zone, value)
        return _nanos(value) - offset // dt.timedelta(microseconds=1) * 1_000
    if isinstance(value, dt.date):
        return _of_day(value.toordinal() - _DAYS_EPOCH, kind.zone)
    raise TypeError(
        f"{value!r} is no time: use a datetime, a date, a numpy.datetime64, a pandas.Timestamp, an ISO string or ticks"
    )


def bounds(start: Optional[Time], stop: Optional[Time], kind: TimeType) -> Tuple[Optional[int], Optional[int]]:
    """The ticks of ``start <= time < stop``, in 64 bits."""
    # The first tick at or after a time: rows from it on, or before it, are those from the time on
    # or before it.
    first = None if start is None else -(-nanos_of(start, kind) // NANOS[kind.unit])
    end = None if stop is None else -(-nanos_of(stop, kind) // NANOS[kind.unit])
    if (first is not None and first > I64_MAX) or (end is not None and end < I64_MIN):
        return I64_MAX, I64_MIN
    # A bound beyond all ticks on its own side bounds nothing.
    return (
        None if first is None or first < I64_MIN else first,
        None if end is None or end > I64_MAX else end,
    )


def whole(value: Time, kind: TimeType) -> Optional[int]:
    """The tick of a time; nothing if it lies between two. Text such as ``-1h`` is so long before the last tick."""
    if isinstance(value, str):
        return _native.time_tick(value, kind.unit, kind.zone)
    ticks, rest = divmod(nanos_of(value, kind), NANOS[kind.unit])
    return ticks if rest == 0 and I64_MIN <= ticks <= I64_MAX else None


def interval_ticks(value: Interval, unit: str) -> int:
    """Ticks of a length of time, which must be whole."""
    if isinstance(value, np.timedelta64):
        nanos = _of_timedelta(value, unit)
    elif isinstance(value, str):
        nanos = _native.duration_nanos(value)
    elif isinstance(value, dt.timedelta):
        nanos = value // dt.timedelta(microseconds=1) * 1_000 + int(getattr(value, "nanoseconds", 0))
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    else:
        raise TypeError(
            f'{value!r} is no length of time: use a timedelta, a numpy.timedelta64, text such as "10s" or ticks'
        )
    ticks, rest = divmod(nanos, NANOS[unit])
    if rest:
        raise SchemaError(f"{value!r} is not whole in ticks of the table's unit, {unit}")
    return ticks


def _of_timedelta(value: np.timedelta64, unit: str) -> int:
    """Nanoseconds, which may be more than an ``int64`` holds."""
    if np.isnat(value):
        raise SchemaError("NaT is no length of time")
    own, count = np.datetime_data(value.dtype)
    if own in ("ps", "fs", "as"):
        raise SchemaError(f"{value!r} is finer than a nanosecond")
    if own in ("Y", "M"):
        raise SchemaError(f"{value!r} is not of one length: use days")
    # Without a unit it counts ticks, as an ``int`` does.
    if own in SECONDS_OF_STEPS:
        per_step = SECONDS_OF_STEPS[own] * NANOS["s"]
    else:
        per_step = NANOS[unit if own == "generic" else own]
    return int(value.astype(np.int64)) * count * per_step


def tick_of_day(value: Any, unit: str) -> int:
    """Ticks since midnight of a time of day: a ``datetime.time``, ISO text or ticks."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and (found := _TIME_OF_DAY.fullmatch(value)):
        hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
        below_second = int((found[4] or "").ljust(9, "0"))
    elif isinstance(value, dt.time) and value.tzinfo is None:
        hour, minute, second = value.hour, value.minute, value.second
        below_second = value.microsecond * NANOS["us"]
    else:
        raise SchemaError(f"{value!r} is no time of day without a zone: use a datetime.time, text or ticks")
    seconds = (hour * 60 + minute) * 60 + second
    ticks, rest = divmod(seconds * NANOS["s"] + below_second, NANOS[unit])
    if rest:
        raise SchemaError(f"{value!r} lies between two ticks of {unit}")
    return ticks


def of_ticks(ticks: int, kind: TimeType) -> Any:
    """A ``datetime`` of the column's zone. Of nanoseconds, which it does not keep, a ``pandas.Timestamp``; without
    pandas a ``datetime64`` in UTC."""
    if kind.unit == "ns":
        try:
            import pandas
        except ImportError:
            return np.datetime64(ticks, "ns")
        stamp = pandas.Timestamp(ticks, unit="ns")
        if kind.zone is None:
            return stamp
        try:
            return stamp.tz_localize("UTC").tz_convert(zone_info(kind.zone))
        except pandas.errors.OutOfBoundsDatetime:
            # The clocks of the zone show a time beyond those that nanoseconds reach.
            return np.datetime64(ticks, "ns")
    micros = ticks * (NANOS[kind.unit] // 1_000)
    try:
        naive = _EPOCH + dt.timedelta(microseconds=micros)
        if kind.zone is None:
            return naive
        return naive.replace(tzinfo=dt.timezone.utc).astimezone(zone_info(kind.zone))
    except OverflowError:
        # Beyond the years that a datetime knows.
        return np.datetime64(ticks, kind.unit)  # type: ignore[call-overload]
