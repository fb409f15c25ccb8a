"""Hyperparameters of a trial, and how they join the arguments of a command line."""

import argparse
import difflib
import json
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple


class HParams(Mapping[str, Any]):
    """The hyperparameters of a trial, by attribute and by item: `hparams.lr`,
    `hparams["lr"]`, `hparams.model.layers`. Read-only; `to_dict()` gives a plain dictionary.

    A script that iterates over them, copies or prints them is taken to use them all.

    Raises AttributeError or KeyError, with a similar name, for an unknown one.
    """

    def __init__(self, values: Dict[str, Any], prefix: str = "",
                 read: Optional[Set[str]] = None) -> None:
        self.__dict__["_values"] = values
        self.__dict__["_prefix"] = prefix
        self.__dict__["_read"] = set() if read is None else read

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(self._unknown(name))
        value = self._values[name]
        if isinstance(value, dict):
            return HParams(value, self._prefix + name + ".", self._read)
        self._read.add(self._prefix + name)
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle asks for some before the object has its values
            raise AttributeError(name)
        if name not in self._values:
            raise AttributeError(self._unknown(name))
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"hyperparameter '{name}' cannot be set: the search chooses it")

    def __iter__(self) -> Iterator[str]:
        self._note_all_read()
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        self._note_all_read()
        return f"HParams({self._values!r})"

    # For copy and pickle.
    def __reduce__(self) -> Tuple[Any, ...]:
        return HParams, (self.to_dict(), self._prefix)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._values]

    def to_dict(self) -> Dict[str, Any]:
        """Returns a copy as nested dictionaries, as json.dumps, yaml.dump and loggers need."""
        self._note_all_read()
        copy: Dict[str, Any] = json.loads(json.dumps(self._values))
        return copy

    def unread(self) -> List[str]:
        """Returns the names, nested ones with dots, that were never read."""
        return [self._prefix + name for name in flatten(self._values)
                if self._prefix + name not in self._read]

    def _note_all_read(self) -> None:
        self._read.update(self._prefix + name for name in flatten(self._values))

    def _unknown(self, name: str) -> str:
        return (f"the experiment has no hyperparameter '{self._prefix}{name}'"
                f"{similar(name, self._values)}")


def parse_args(hparams: HParams, parser: argparse.ArgumentParser, args: Optional[List[str]],
               ignore: Iterable[str]) -> argparse.Namespace:
    """Parses a command line with the hyperparameters as defaults: `Trial.parse_args()`."""
    chosen = {}
    for name, value in flatten(hparams.to_dict()).items():
        if name in ignore:
            continue
        action = _action_of(parser, name)
        converted = _convert(parser, action, name, value)
        chosen[action] = (name, converted)
        action.required = False
        if not action.option_strings:
            action.nargs = action.nargs or "?"
        parser.set_defaults(**{action.dest: converted})
    parsed = parser.parse_args(args)
    for action, (name, value) in chosen.items():
        given = getattr(parsed, action.dest)
        if given != value and given != _text(value):
            parser.error(f"hyperparameter '{name}' is {value!r}, but the command line has "
                         f"{given!r}; remove it from the entrypoint, or write "
                         f"{{{name}}} there")
    return parsed


def unused(hparams: HParams) -> List[str]:
    """Returns the names of those that the script has not read, and that no placeholder such as
    --lr={lr} has passed on the command line."""
    names = hparams.unread()
    values = flatten(hparams._values)
    texts = [*sys.argv[1:], *(argument.rpartition("=")[2] for argument in sys.argv[1:])]
    return [name for name in names if not any(_equals(text, values[name]) for text in texts)]


def flatten(values: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Returns nested values by names with dots."""
    flat: Dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, prefix + name + "."))
        else:
            flat[prefix + name] = value
    return flat


def similar(name: str, names: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the most similar one, if any."""
    known = list(names)
    found = difflib.get_close_matches(name, known, 1) or [one for one in known if name in one]
    return f"; did you mean '{found[0]}'?" if found else ""


def _normal(name: str) -> str:
    return name.lstrip("-").replace("-", "_").replace(".", "_")


# Returns the argument of a hyperparameter; exits if there is none.
def _action_of(parser: argparse.ArgumentParser, name: str) -> argparse.Action:
    names: Dict[str, argparse.Action] = {}
    for action in parser._actions:
        for one in (action.dest, *action.option_strings):
            names.setdefault(_normal(one), action)
    if _normal(name) not in names or names[_normal(name)].dest == "help":
        parser.error(f"hyperparameter '{name}' has no argument{similar(_normal(name), names)}; "
                     f"add --{name}, or call parse_args(parser, ignore=['{name}'])")
    return names[_normal(name)]


# Returns the value that the argument would have, given on the command line.
def _convert(parser: argparse.ArgumentParser, action: argparse.Action, name: str,
             value: Any) -> Any:
    if action.nargs not in (None, 0, "?"):
        return _convert_list(parser, action, name, value)
    if action.nargs == 0:  # a flag
        if not isinstance(value, bool):
            parser.error(f"hyperparameter '{name}' is {value!r}, but its argument is a flag; use "
                         "true or false")
        return value
    return _convert_one(parser, action, name, value)


# As on the command line, one value is a list too.
def _convert_list(parser: argparse.ArgumentParser, action: argparse.Action, name: str,
                  value: Any) -> List[Any]:
    values = value if isinstance(value, list) else [value]
    takes = f"{action.nargs} values" if isinstance(action.nargs, int) else "at least one value"
    if len(values) != action.nargs if isinstance(action.nargs, int) else (
            action.nargs == "+" and not values):
        parser.error(f"hyperparameter '{name}' is {value!r}, but its argument takes {takes}")
    return [_convert_one(parser, action, name, one) for one in values]


def _convert_one(parser: argparse.ArgumentParser, action: argparse.Action, name: str,
                 value: Any) -> Any:
    converted = value
    if action.type is not None and not (action.type is bool and isinstance(value, bool)):
        try:
            converted = action.type(_text(value))  # type: ignore[operator]
        except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
            parser.error(f"hyperparameter '{name}' is {value!r}, which its argument refuses: "
                         f"{error}")
    if action.choices is not None and converted not in action.choices:
        choices = ", ".join(map(repr, action.choices))
        parser.error(f"hyperparameter '{name}' is {value!r}; its argument allows {choices}")
    return converted


# True if the text, an argument, stands for the value.
def _equals(text: str, value: Any) -> bool:
    try:
        return text == _text(value) or isinstance(value, (int, float)) and float(text) == value
    except ValueError:
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
