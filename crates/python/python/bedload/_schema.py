"""Columns of a table, and conditions on them."""

from __future__ import annotations

import re
import time
from decimal import Decimal, InvalidOperation
from typing import Any, Iterable, List, Mapping, Optional, Tuple, Union

from . import _native
from ._errors import SchemaError
from ._times import TimeType, interval_ticks, nanos_of, tick_of_day, whole

#: In nanoseconds.
_DAY = 86_400_000_000_000

#: A date, or days before today.
_DATE = re.compile(r"\d{4,}-\d\d-\d\d|-\d.*")

#: ``{"carrier": "UA"}``, or comparisons such as ``[("delay", ">", 60)]`` and
#: ``[("carrier", "in", ["UA", "B6"])]``, all of which rows must meet. Rows without a value meet
#: ``{"delay": None}`` and nothing else; ``("delay", "!=", None)`` leaves them out.
Where = Union[Mapping[str, Any], Iterable[Tuple[str, str, Any]]]


class Schema:
    """Columns of a table, and how times are read for it."""

    def __init__(self, columns: List["_native.Described"], time: int) -> None:
        self.columns = columns
        self.types = {name: kind for name, kind, *_ in columns}
        self.kinds = {name: TimeType(unit, zone) for name, _, unit, zone, _ in columns if unit is not None}
        self.time = columns[time][0]
        self.required = [name for name, *_, may_be_null in columns if not may_be_null]

    def conditions(self, where: Optional[Where]) -> List[Tuple[str, str, Any]]:
        if where is None:
            return []
        given = [(name, "=", value) for name, value in where.items()] if isinstance(where, Mapping) else list(where)
        return [self._condition(*condition) for condition in given]

    def _condition(self, name: str, sign: str, value: Any) -> Tuple[str, str, Any]:
        if sign == "in":
            if isinstance(value, (str, bytes)):
                raise SchemaError(f'{value!r} is one value: "in" takes a list of them')
            return name, sign, [self._constant(name, one) for one in value]
        return name, sign, None if value is None else self._constant(name, value)

    def _constant(self, name: str, value: Any) -> Any:
        if name in self.kinds:
            ticks = whole(value, self.kinds[name])
            if ticks is None:
                raise SchemaError(f"{value!r} lies between two ticks of column {name!r}")
            return ticks
        if self.types.get(name) == "Date32":
            if isinstance(value, str) and not _DATE.fullmatch(value):
                raise SchemaError(f"{value!r} is no day, which column {name!r} has: write 2013-02-08 or -7d")
            nanos = nanos_of(value, TimeType("s", None))
            if isinstance(value, str) and value.startswith("-"):
                # As ticks are counted from the last one before now, days are from today.
                nanos = time.time_ns() // _DAY * _DAY - _native.duration_nanos(value[1:])
            day, rest = divmod(nanos, _DAY)
            if rest:
                raise SchemaError(f"{value!r} is no day, which column {name!r} has")
            return day
        kind, _, unit = self.types.get(name, "").rstrip(")").partition("(")
        if kind == "Duration":
            return interval_ticks(value, unit.replace("µ", "u"))
        if kind in ("Time32", "Time64"):
            return tick_of_day(value, unit.replace("µ", "u"))
        if self.types.get(name, "").startswith("Decimal"):
            return unrounded(value, name, self.types[name])
        return value


def unrounded(value: Any, name: str, kind: str) -> Any:
    """A number that a column of decimals holds with all its digits."""
    try:
        _, digits, exponent = Decimal(str(value)).as_tuple()
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int):
        raise SchemaError(f"{value!r} is no number, which column {name!r} has")
    # The type ends with its precision and scale, as in Decimal128(18, 2).
    precision, scale = (int(part) for part in kind.rpartition("(")[2].rstrip(")").split(","))
    number = "".join(map(str, digits)).lstrip("0")
    places = exponent + len(number) - len(number.rstrip("0"))
    if number and (places < -scale or exponent + len(number) > precision - scale):
        raise SchemaError(f"{value!r} has more digits than column {name!r}, which is {kind}")
    return value
