"""Which hyperparameters a script has not read when it validates for the first time.

A search over such a one trains one trial many times, so dtrain ends it. A script may also read one
only in some trials, such as the momentum of one optimizer, or later. So those count as read that
its text reads from `trial.hparams` in code that may not have been executed yet.
"""

import ast
import os
import sys
from pathlib import Path
from typing import Iterator, List, Optional, Set, Union

from dtrain import _hparams

_MAX_BYTES = 1 << 20  # of a source

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def before_validation(hparams: _hparams.HParams) -> Optional[List[str]]:
    """Returns the names of those that were not read, or None if that cannot be said: this process
    is a child of the script's, or the script has no file."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return None
    names = _hparams.unused(hparams)
    if not names:
        return []
    if not getattr(sys.modules.get("__main__"), "__file__", None):
        return None
    later: Set[str] = set()
    for source in _sources():
        later |= read_later(source)
    return [name for name in names if name.rpartition(".")[2] not in later]


def read_later(source: str) -> Set[str]:
    """Returns the names that a Python text reads from hyperparameters within conditions, loops
    and functions."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    reads = _Reads(tree)
    reads.visit(tree)
    return reads.names


# The texts of the script and of the modules beside it.
def _sources() -> Iterator[str]:
    places = {os.getcwd(), os.path.dirname(os.path.abspath(sys.modules["__main__"].__file__ or ""))}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or "site-packages" in file:
            continue
        path = os.path.abspath(file)
        if not any(path.startswith(place + os.sep) for place in places):
            continue
        try:
            if os.path.getsize(path) <= _MAX_BYTES:
                yield Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            continue


class _Reads(ast.NodeVisitor):
    def __init__(self, tree: ast.AST) -> None:
        self.names: Set[str] = set()
        self._holders: Set[str] = {"hparams"}  # variables
        self._depth = 0
        before = 0
        while before < len(self._holders):  # a variable may be assigned to another one
            before = len(self._holders)
            self._find_holders(tree)

    def _find_holders(self, tree: ast.AST) -> None:
        functions = {node.name: node for node in ast.walk(tree)
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._assign(node.target, node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                function = functions.get(node.func.id)
                if function is not None:
                    self._pass(node, function)

    # A variable, or an attribute such as self.hp.
    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for to, one in zip(target.elts, value.elts):
                self._assign(to, one)
        elif isinstance(target, ast.Name) and self._is_hparams(value):
            self._holders.add(target.id)
        elif isinstance(target, ast.Attribute) and self._is_hparams(value):
            self._holders.add("." + target.attr)

    def _pass(self, call: ast.Call, function: _Function) -> None:
        for parameter, argument in zip(function.args.args, call.args):
            if self._is_hparams(argument):
                self._holders.add(parameter.arg)
        self._holders |= {keyword.arg for keyword in call.keywords
                          if keyword.arg and self._is_hparams(keyword.value)}

    # True for trial.hparams, a variable of it, and a nested map of either.
    def _is_hparams(self, node: ast.AST) -> bool:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and "." + node.attr in self._holders:
                return True
            if isinstance(node, ast.Attribute) and node.attr == "hparams":
                # Lightning's own are not those of the trial.
                return not (isinstance(node.value, ast.Name) and node.value.id == "self")
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._holders

    def _note(self, holder: ast.AST, name: object) -> None:
        if self._depth and isinstance(name, str) and self._is_hparams(holder):
            self.names.add(name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._note(node.value, node.attr)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = getattr(node.slice, "value", None)
        self._note(node.value, getattr(key, "value", key))  # Python 3.8 has an ast.Index around it
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            self._note(node.func.value, getattr(node.args[0], "value", None))
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        nested = isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.FunctionDef, ast.Lambda, ast.For,
                                   ast.While, ast.AsyncFunctionDef, ast.Try)) or (
                                       type(node).__name__ == "Match")
        self._depth += nested
        super().generic_visit(node)
        self._depth -= nested
