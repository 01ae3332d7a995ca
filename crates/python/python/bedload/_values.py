"""Columns of plain Python values, each made into one of an Arrow type."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from ._errors import SchemaError
from ._schema import unrounded
from ._times import I64_MAX, I64_MIN, NANOS, TimeType, interval_ticks, nanos_of, tick_of_day, zone_name

#: Values, or ``None``, and the Arrow type that they have.
Typed = Tuple[List[Any], str]

_EPOCH = dt.date(1970, 1, 1)

_FAMILIES = (
    ((type(None),), "null"),
    ((bool, np.bool_), "bool"),
    # NumPy's is an integer, too.
    ((dt.timedelta, np.timedelta64), "length of time"),
    ((int, np.integer), "integer"),
    ((float, np.float16, np.float32), "float"),
    ((str,), "text"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((Decimal,), "decimal"),
    ((dt.datetime, np.datetime64), "time"),
    ((dt.date,), "date"),
    ((dt.time,), "time of day"),
)

_UNIT_WORDS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


class Target(NamedTuple):
    """The table for which rows are: its columns' types, times among them, and which of them a row
    may lack."""

    types: Mapping[str, str]
    times: Mapping[str, TimeType]
    may_lack: Callable[[str], bool]


#: No table: types are those of the values.
NO_TARGET = Target({}, {}, lambda name: False)


def is_value(given: Any) -> bool:
    """Whether this is one value rather than a column."""
    return _is_missing(given) or _family(type(given)) is not None


def is_of_numpy(values: Union[List[Any], Tuple[Any, ...]]) -> bool:
    """Whether all values are NumPy scalars of one type, which an array of them keeps. NumPy rounds or wraps values of
    several types in one array."""
    kinds = set(map(type, values))
    if len(kinds) != 1 or not issubclass(kinds.pop(), (np.bool_, np.number, np.datetime64)):
        return False
    dtypes = {value.dtype for value in values}
    return len(dtypes) == 1 and not ((dtype := dtypes.pop()).kind in "mM" and np.datetime_data(dtype)[0] == "generic")


def typed(name: str, values: Sequence[Any], target: Target) -> Typed:
    """Values and the Arrow type in which none of them changes."""
    kinds = set(map(type, values))
    values = [None if _is_missing(value) else value for value in values] if _has_missing(kinds) else list(values)
    families = _families(name, set(map(type, values)))
    kind = target.types.get(name, "")
    if not families:
        return values, "Null"
    if families == {"bool"}:
        return values, "Boolean"
    if families == {"text"}:
        return values, "Utf8"
    if families == {"bytes"}:
        return [bytes(value) if isinstance(value, memoryview) else value for value in values], "Binary"
    if families <= {"integer", "decimal"} and (kind.startswith("Decimal") or "decimal" in families):
        return _decimals(name, values, kind if kind.startswith("Decimal") else _decimal_type(values))
    if families == {"integer"}:
        return values, _integer_type(name, values)
    if families <= {"integer", "float"}:
        return _floats(name, values), "Float64"
    if families == {"date"}:
        return [None if value is None else (value - _EPOCH).days for value in values], "Date32"
    if families <= {"time", "date"}:
        return _times(name, values, target.times.get(name))
    unit = kind.rpartition("(")[2].rstrip(")").replace("µ", "u")
    if families == {"time of day"}:
        unit = unit if kind.startswith("Time") and unit in NANOS else "us"
        bits = 32 if unit in ("s", "ms") else 64
        return [None if value is None else tick_of_day(value, unit) for value in values], f"Time{bits}({unit})"
    if families == {"length of time"}:
        unit = unit if kind.startswith("Duration") else _length_unit(values)
        return [_length(value, unit) for value in values], f"Duration({unit})"
    raise SchemaError(f"column {name!r} mixes values that are {' and '.join(sorted(families))}")


def _has_missing(kinds: Set[type]) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and not kinds.isdisjoint({type(pandas.NaT), type(pandas.NA)})


def _is_missing(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return value is None or (pandas is not None and (value is pandas.NaT or value is pandas.NA))


def _family(kind: type) -> Optional[str]:
    return next((family for kinds, family in _FAMILIES if issubclass(kind, kinds)), None)


def _families(name: str, kinds: Set[type]) -> Set[str]:
    families = set()
    for kind in kinds:
        family = _family(kind)
        if family is None:
            raise SchemaError(f"column {name!r} has a value of type {kind.__name__}, which a table does not keep")
        families.add(family)
    return families - {"null"}


def _integer_type(name: str, values: List[Any]) -> str:
    # NumPy 1 compares its signed and unsigned integers as floats.
    given = [int(value) for value in values if value is not None]
    if I64_MIN <= min(given) and max(given) <= I64_MAX:
        return "Int64"
    if min(given) >= 0 and max(given) < 2**64:
        return "UInt64"
    raise SchemaError(f"column {name!r} has integers beyond 64 bits: {min(given)} to {max(given)}")


def _floats(name: str, values: List[Any]) -> List[Any]:
    """Numbers as floats; an integer that would be rounded is refused."""
    for row, value in enumerate(values):
        # Python compares an integer with a float exactly.
        if isinstance(value, (int, np.integer)) and (abs(int(value)) >= 2**1023 or float(value) != int(value)):
            raise SchemaError(f"row {row} of column {name!r}: {value} among floats would be rounded")
    return values


def _decimal_type(values: List[Any]) -> str:
    exponents = [value.as_tuple().exponent for value in values if isinstance(value, Decimal)]
    scale = max((-exponent for exponent in exponents if isinstance(exponent, int)), default=0)
    return f"Decimal128(38, {max(scale, 0)})"


def _decimals(name: str, values: List[Any], kind: str) -> Typed:
    def digits(value: Any) -> str:
        return format(Decimal(str(unrounded(value, name, kind))), "f")

    return [None if value is None else digits(value) for value in values], kind


def _times(name: str, values: List[Any], kind: Optional[TimeType]) -> Typed:
    kind = kind or _time_type(name, values)
    ticks: List[Optional[int]] = []
    for row, value in enumerate(values):
        if value is None or value != value:
            ticks.append(None)
            continue
        try:
            tick, rest = divmod(nanos_of(value, kind), NANOS[kind.unit])
        except SchemaError as error:
            raise SchemaError(f"row {row} of column {name!r}: {error}") from error
        if rest:
            raise SchemaError(
                f"row {row} of column {name!r} is not a whole {_UNIT_WORDS[kind.unit]}: "
                "round the times first, or use a table of a finer unit"
            )
        ticks.append(tick)
    zone = "" if kind.zone is None else f', "{kind.zone}"'
    return ticks, f"Timestamp({kind.unit}{zone})"


def _time_type(name: str, values: List[Any]) -> TimeType:
    """The zone that all times have, and microseconds, or nanoseconds if one needs them."""
    times = [value for value in values if value is not None and value == value]
    zones = {zone_name(value) if isinstance(value, dt.datetime) else None for value in times}
    if len(zones) > 1:
        raise SchemaError(f"column {name!r} has times of several zones: give the table an Arrow schema")
    zone = zones.pop() if zones else None
    has_nanos = any(nanos_of(value, TimeType("us", zone)) % 1_000 for value in times)
    return TimeType("ns" if has_nanos else "us", zone)


def _length_unit(values: List[Any]) -> str:
    """Microseconds, or nanoseconds if a length needs them."""
    return "ns" if any((_length(value, "ns") or 0) % 1_000 for value in values) else "us"


def _length(value: Any, unit: str) -> Optional[int]:
    return None if value is None or value != value else interval_ticks(value, unit)
