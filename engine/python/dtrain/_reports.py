"""What a report may hold.

dtrain ignores a line of a program that breaks one of these rules, which are those of
engine/program/program_report.cc. So a mistake raises here, where it is made, also outside
dtrain: otherwise the script and dtrain would wait for each other.
"""

import json
from typing import Any, Dict, List, Mapping, Optional

UNITS = ("batches", "epochs", "records")

MAX_COUNT = 1e15  # a double holds all whole numbers up to it
MAX_METRICS = 1000  # of a report
MAX_NAME_BYTES = 1000  # of a metric, in UTF-8
MAX_LINE_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 2000  # the rest is cut

_OTHER_BYTES = 200  # at most, of a line besides its metrics
_VALUE_BYTES = 30  # at most, of a value and the characters around it


def line(kind: str, **fields: Any) -> str:
    """Returns a line of the protocol. Raises ValueError if it is too long."""
    text = json.dumps({"type": kind, **fields})
    if len(text) > MAX_LINE_BYTES:
        raise ValueError(f"this {kind} has {len(text)} bytes; at most {MAX_LINE_BYTES} are allowed: "
                         "report fewer metrics, or shorter names")
    return text + "\n"


def message_of(why: Any) -> str:
    """Returns the text of a message that dtrain can read, whatever it is."""
    text = str(why).encode("utf-8", "replace")[:MAX_MESSAGE_BYTES]
    return text.decode("utf-8", "ignore")


def require_count(name: str, count: Any) -> None:
    """Raises ValueError unless `count` is a number that dtrain can record."""
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not count >= 0:
        raise ValueError(f"{name} must be a number of at least 0, got {_shown(count)}")
    if count > MAX_COUNT:
        raise ValueError(f"{name} must be at most 10^15, got {_shown(count)}")


def require_position(where: Mapping[str, float], unit: str) -> None:
    """Raises ValueError unless the record of a report, by unit, is a whole number: its batches
    or, without them, the count in `unit`."""
    for name, count in where.items():
        require_count(name, count)
    recorded = "batches" if "batches" in where else unit
    if where[recorded] != int(where[recorded]):
        hint = "" if recorded == "batches" else " without batches"
        raise ValueError(f"{recorded} must be a whole number{hint}, got {where[recorded]!r}")


def metrics_of(given: Optional[Mapping[str, Any]], more: Mapping[str, Any] = {}) -> Dict[str, float]:
    """Returns the metrics as numbers. Raises TypeError for a name that is no string, and a
    value that is not a number, ValueError for a name that is too long and too many metrics."""
    values: Dict[str, float] = {}
    for name, value in {**(given or {}), **more}.items():
        if name not in _name_bytes:
            _require_name(name)
        if type(value) is not float:
            value = number_of(name, value)
        values[name] = value
    _require_few(len(values))
    return values


def number_of(name: str, value: Any) -> float:
    """Returns the value of the metric `name` as a number. Raises TypeError if it is none."""
    if not isinstance(value, (str, bytes, bool)) and value is not None:
        try:
            # item() of a tensor: float() warns if it has a gradient.
            return float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            pass
    shape = getattr(value, "shape", None)
    what = f"{type(value).__name__} of shape {tuple(shape)}" if shape is not None else _shown(value)
    raise TypeError(f"metric '{name}' must be a number, got {what}")


class Means:
    """The training reports of one count, which are recorded as their means."""

    def __init__(self) -> None:
        self._sums: Dict[str, List[float]] = {}  # sum and number of each metric
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, values: Mapping[str, float]) -> None:
        """Raises ValueError, and adds nothing, if they would be too many for one report."""
        new = [name for name in values if name not in self._sums]
        if new:
            _require_few(len(self._sums) + len(new))
            self._bytes += sum(map(_bytes_of, new))
            if self._bytes > MAX_LINE_BYTES - _OTHER_BYTES:
                self._bytes -= sum(map(_bytes_of, new))
                raise ValueError(f"the metrics of one count may have {MAX_LINE_BYTES} bytes; report "
                                 "fewer metrics, or shorter names")
        for name, value in values.items():
            mean = self._sums.setdefault(name, [0.0, 0])
            mean[0] += value
            mean[1] += 1

    def take(self) -> Dict[str, float]:
        """Returns the means, and begins again."""
        means = {name: total / number for name, (total, number) in self._sums.items()}
        self._sums, self._bytes = {}, 0
        return means


_name_bytes: Dict[str, int] = {}  # of names that are valid, in a line


def _bytes_of(name: str) -> int:
    return _name_bytes.get(name) or len(json.dumps(name)) + _VALUE_BYTES


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a metric must be a non-empty string, got {_shown(name)}")
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError(f"the name of a metric must be valid Unicode, got {_shown(name)}") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"the name of a metric may have {MAX_NAME_BYTES} bytes, got {size}: "
                         f"{_shown(name)}")
    if len(_name_bytes) < 10 * MAX_METRICS:
        _name_bytes[name] = len(json.dumps(name)) + _VALUE_BYTES


def _require_few(number: int) -> None:
    if number > MAX_METRICS:
        raise ValueError(f"a report may have {MAX_METRICS} metrics, got {number}")


def _shown(value: Any) -> str:
    try:
        text = ascii(value) if isinstance(value, str) else repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"a number of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
