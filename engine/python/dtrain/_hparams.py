"""Hyperparameters of a trial, and how they join the arguments of a command line."""

import argparse
import contextlib
import difflib
import io
import json
import sys
import threading
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
               ignore: Iterable[str], alternatives: Optional[Mapping[str, List[Any]]] = None,
               rules: int = 2) -> argparse.Namespace:
    """Parses a command line with the hyperparameters as defaults: `Trial.parse_args()`.

    `alternatives`: the values that searched hyperparameters choose from. `rules`: those of the
    experiment (docs/migrating.md)."""
    choices = _leaves(alternatives or {})
    chosen: Dict[str, Tuple[str, List[Any]]] = {}  # by `dest`: a value of each subcommand
    groups: List[List[Tuple[argparse.Action, Any]]] = []
    try:
        for name, value in flatten(hparams.to_dict()).items():
            if name in ignore:
                continue
            for argument in _find(parser, name, rules):
                action = argument.action
                known, values = chosen.setdefault(action.dest, (name, []))
                if rules >= 2 and known != name:
                    raise _Refusal(f"hyperparameters '{known}' and '{name}' belong to one "
                                   f"argument, '{action.dest}'; remove one of them")
                if isinstance(action, argparse._SubParsersAction):
                    values.append(value)  # only the command line can choose a subcommand
                    continue
                converted = argument.convert(value)
                values.append(converted)
                if rules >= 2:
                    _require_distinct(argument, value, choices.get(name, []))
                    argument.convert_once(converted)
                argument.take_value(converted, groups)
    except _Refusal as refusal:
        parser.error(str(refusal))
    parsed = parser.parse_args(args)
    for dest, (name, values) in chosen.items():
        given = getattr(parsed, dest, values[-1])  # a flag may leave no attribute
        if not any(_stands_for(given, value, rules) for value in values):
            parser.error(f"hyperparameter '{name}' is {values[-1]!r}, but the command line has "
                         f"{given!r}; remove it from the entrypoint, or write "
                         f"{{{name}}} there")
        if not hasattr(parsed, dest) and all(one.dest != dest for one in parser._actions):
            parser.error(f"hyperparameter '{name}' has no argument in this subcommand; call "
                         f"parse_args(parser, ignore=['{name}']) if it needs none")
    for group in groups:
        both = {one.dest: "/".join(one.option_strings) or one.dest for one, default in group
                if getattr(parsed, one.dest, default) is not default}
        if len(both) > 1:
            parser.error(f"arguments {' and '.join(both.values())} exclude each other")
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


class _Refusal(Exception):
    """Why a hyperparameter cannot be an argument."""


# Returns the arguments that have the name of a hyperparameter: one of the parser, and of each of
# its subcommands. Raises _Refusal if there is none.
def _find(parser: argparse.ArgumentParser, name: str, rules: int) -> "List[_Argument]":
    found: List[_Argument] = []
    known: Dict[str, None] = {}
    parsers = [parser]
    for one in parsers:  # grows
        names: Dict[str, Tuple[argparse.Action, str]] = {}
        actions = [action for action in one._actions if not isinstance(
            action, (argparse._HelpAction, argparse._VersionAction))]
        for action in actions:
            for option in action.option_strings:
                names.setdefault(_normal(option), (action, option))
        for action in actions:
            names.setdefault(_normal(action.dest), (action, ""))
            if isinstance(action, argparse._SubParsersAction):
                parsers += (sub for sub in action.choices.values() if sub not in parsers)
        if _normal(name) in names:
            found.append(_Argument(one, *names[_normal(name)], name, rules))
        known.update(dict.fromkeys(names))
    if not found:
        raise _Refusal(f"hyperparameter '{name}' has no argument{similar(_normal(name), known)}; "
                       f"add --{name}, or call parse_args(parser, ignore=['{name}'])")
    return found


# True if a result of the command line is the value of a hyperparameter, or its text.
def _stands_for(given: Any, value: Any, rules: int) -> bool:
    try:
        return given is value or bool(given == value) or (
            given == _text(value) and (value is not None or rules < 2))
    except Exception:  # arrays
        return True


class _Argument:
    """The argument of a hyperparameter, and the value that it would have if the hyperparameter
    stood on the command line. `option`: that of its name, if any."""

    def __init__(self, parser: argparse.ArgumentParser, action: argparse.Action, option: str,
                 name: str, rules: int) -> None:
        self.action = action
        self._parser = parser
        self._option = option
        self._name = name
        self._rules = rules

    def convert(self, value: Any) -> Any:
        """Returns the argument's value."""
        action = self.action
        if action.nargs == 0:
            return self._convert_flag(value)
        if self._rules >= 2:
            if value is None:
                return None
            if isinstance(value, list) and None in value and action.type is not None:
                raise self._refusal(value, "but null is no value on a command line; remove it")
            if self._acts:
                return self._act(value)
        return self._convert_values(value)

    def convert_once(self, converted: Any) -> None:
        """Lets the parser take `converted` as it is: it would convert a default that is a text."""
        convert = self.action.type
        if not isinstance(converted, str) or not callable(convert):
            return

        def convert_other(text: Any) -> Any:
            return text if text is converted else convert(text)

        convert_other.__name__ = getattr(convert, "__name__", repr(convert))
        self.action.type = convert_other

    def take_value(self, converted: Any, groups: List[List[Tuple[argparse.Action, Any]]]) -> None:
        """Makes `converted` the value of the argument where the command line has none. Adds its
        groups of arguments that exclude each other to `groups`, with their defaults."""
        action = self.action
        for group in self._parser._mutually_exclusive_groups:
            members = group._group_actions
            if action in members and all(one[0][0] not in members for one in groups):
                group.required = False
                groups.append([(one, one.default) for one in members])
        action.required = False
        if not action.option_strings:
            action.nargs = action.nargs or "?"
        self._parser.set_defaults(**{action.dest: converted})

    def _refusal(self, value: Any, why: str) -> _Refusal:
        return _Refusal(f"hyperparameter '{self._name}' is {value!r}, {why}")

    # As on the command line: --no-x makes its `dest` false.
    def _convert_flag(self, value: Any) -> Any:
        action = self.action
        if self._rules >= 2:
            if value is None and action.default is None:
                return None
            if isinstance(action, argparse._CountAction) and type(value) is int and value >= 0:
                return value + (action.default or 0 if self._option else 0)
            if not self._option and isinstance(action, argparse._StoreConstAction) and not (
                    isinstance(action.const, bool)):
                return self._convert_const(value)
        if not isinstance(value, bool):
            raise self._refusal(value, "but its argument is a flag; use true or false")
        if self._rules < 2 or not self._option:
            return value  # the name is that of the result
        if not value and self._is_custom:
            return action.default
        result = self._run_action(value, [])
        if value:
            return result
        return not result if isinstance(result, bool) else action.default

    # Flags such as --adam and --sgd share a `dest`, which the hyperparameter names.
    def _convert_const(self, value: Any) -> Any:
        action = self.action
        consts = [one.const for one in self._parser._actions
                  if one.dest == action.dest and isinstance(one, argparse._StoreConstAction)]
        if value != action.default and value not in consts:
            raise self._refusal(value, f"but its flags give {', '.join(map(repr, consts))}")
        return value

    # True for an action that does not just store its values: "append", or a class of the script.
    @property
    def _acts(self) -> bool:
        return self._rules >= 2 and type(self.action) is not argparse._StoreAction

    @property
    def _is_custom(self) -> bool:
        return type(self.action).__module__ != "argparse"

    @property
    def runs_code(self) -> bool:
        """True if a value is given to a function or class of the script."""
        return self.action.type not in (None, bool, float, int, str) or self._is_custom

    def _act(self, value: Any) -> Any:
        repeats = isinstance(self.action, argparse._AppendAction) and not isinstance(
            self.action, argparse._ExtendAction)
        values = value if repeats and isinstance(value, list) else [value]
        return self._run_action(value, *(self._convert_values(one) for one in values))

    # Returns what the action makes of `values`, one call for each.
    def _run_action(self, value: Any, *values: Any) -> Any:
        action = self.action
        given = argparse.Namespace()
        if action.default is not argparse.SUPPRESS:
            setattr(given, action.dest, action.default)
        try:
            for one in values:
                action(self._parser, given, one, self._option or None)
        except Exception as error:
            raise self._refusal(value, f"which its argument refuses: {_error_text(error)}") from None
        others = sorted(set(vars(given)) - {action.dest})
        if others:
            raise self._refusal(value, f"but its argument also sets '{others[0]}'; write it in the "
                                f"entrypoint, and call parse_args(parser, ignore=['{self._name}'])")
        return getattr(given, action.dest, None)

    def _convert_values(self, value: Any) -> Any:
        if self.action.nargs in (None, "?"):
            return self._convert_one(value)
        return self._convert_list(value)

    # As on the command line, one value is a list too.
    def _convert_list(self, value: Any) -> List[Any]:
        nargs = self.action.nargs
        values = value if isinstance(value, list) else [value]
        takes = f"{nargs} values" if isinstance(nargs, int) else "at least one value"
        if len(values) != nargs if isinstance(nargs, int) else nargs == "+" and not values:
            raise self._refusal(value, f"but its argument takes {takes}")
        return [self._convert_one(one) for one in values]

    def _convert_one(self, value: Any) -> Any:
        action = self.action
        converted = _text(value) if action.type is None and self._acts else value
        if action.type is not None and not (action.type is bool and isinstance(value, bool)):
            try:
                converted = action.type(_text(value))  # type: ignore[operator]
            except Exception as error:
                raise self._refusal(
                    value, f"which its argument refuses: {_error_text(error)}") from None
        if action.choices is not None and converted not in action.choices:
            if action.type is None and _text(value) in action.choices:
                return _text(value)
            choices = ", ".join(map(repr, action.choices))
            raise _Refusal(f"hyperparameter '{self._name}' is {value!r}; its argument allows "
                           f"{choices}")
        return converted


def _error_text(error: Exception) -> str:
    speaks = isinstance(error, (TypeError, ValueError, argparse.ArgumentTypeError,
                                argparse.ArgumentError))
    return str(error) if speaks else f"{type(error).__name__}: {error}"


# Returns the alternatives by the names of single values: an alternative may be a map.
def _leaves(alternatives: Mapping[str, List[Any]]) -> Dict[str, List[Any]]:
    found: Dict[str, List[Any]] = {}
    for path, values in alternatives.items():
        for value in values:
            for name, leaf in flatten({path: value}).items():
                known = found.setdefault(name, [])
                if not any(_is_same(leaf, one) for one in known):
                    known.append(leaf)
    return found


# Raises _Refusal if two of the values that a hyperparameter may have are one to its argument:
# the search would compare trials that train alike. A Boolean may always be true or false.
def _require_distinct(argument: _Argument, value: Any, values: List[Any]) -> None:
    if isinstance(value, bool) and argument.action.nargs != 0:
        values = [*values, *(one for one in (True, False) if one not in values)]
    results: List[Tuple[Any, Any]] = []
    for one in values:
        try:
            result = _Untouched.call(argument, one)
        except _Touch:
            return
        except (Exception, SystemExit):
            continue  # told by the trial that has it
        for other, earlier in results:
            if _is_same(result, earlier):
                raise _Refusal(
                    f"hyperparameter '{argument._name}': its argument is {result!r} for both "
                    f"{json.dumps(other)} and {json.dumps(one)}, so their trials would train alike;"
                    " correct the type of the argument, or remove one of the values")
        results.append((one, result))


def _is_same(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:  # arrays
        return False


class _Touch(BaseException):
    """A converter would open a file, or do something else that another process can see."""


class _Untouched:
    """Calls converters for values that the trial does not have."""

    _thread: Optional[int] = None  # that calls one
    _touched = False
    _watches = False

    @classmethod
    def call(cls, argument: _Argument, value: Any) -> Any:
        """Returns the converted value without any output. Raises _Touch."""
        if not argument.runs_code:
            return argument.convert(value)
        if not cls._watches:
            sys.addaudithook(cls._watch)
            cls._watches = True
        cls._touched = False
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cls._thread = threading.get_ident()
            try:
                result = argument.convert(value)
            finally:
                cls._thread = None
                if cls._touched:
                    raise _Touch
        return result

    # https://docs.python.org/3/library/audit_events.html
    @classmethod
    def _watch(cls, event: str, _: Tuple[Any, ...]) -> None:
        if cls._thread is None or cls._thread != threading.get_ident():
            return
        if event.split(".")[0] in ("ctypes", "glob", "import", "open", "os", "pathlib", "shutil",
                                   "socket", "sqlite3", "subprocess", "tempfile", "urllib"):
            cls._touched = True
            raise _Touch


# True if the text, an argument, stands for the value.
def _equals(text: str, value: Any) -> bool:
    try:
        return text == _text(value) or isinstance(value, (int, float)) and float(text) == value
    except ValueError:
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
