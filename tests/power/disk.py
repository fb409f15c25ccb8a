"""Model of a disk that may lose unsynced changes in a power cut.

The model is strict POSIX, like the weakest one of ALICE (Pillai et al., OSDI 2014) and leveldb's
FaultInjectionTestEnv; where those differ, the weaker one:

- Data written to a file is durable once the file is fsynced (or fdatasynced; its size counts as
  data). Until then each block of 512 bytes may or may not be on the disk, in any order. A file may
  have its new size without the data and then holds zeros there.
- A name (created, linked, renamed, removed) is durable once a directory that contains it is
  fsynced. Until then each change may or may not be on the disk, in any order. An fsync of a new
  file does not make its name durable, and an fsync of a directory not its own name in its parent.
- A rename is atomic across both directories.
- Modes and times of files are durable at once.
- Files in the working directories of programs (FREE) are unsynced copies without guarantees. Their
  names become durable in order, and their data as a prefix that matches the size, as on ext4
  (ordered), XFS and Btrfs: dtrain recognizes a truncated copy by its size.

Real file systems guarantee more. With `journal=True` names behave as on ext4, XFS and Btrfs: they
become durable in order, and any fsync includes all earlier ones (ext4 commits its journal). A
violation that only occurs without it is a defect by the standard, but not on those systems."""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from random import Random

BLOCK = 512
FREE = re.compile(r"store/experiments/\d+/trials/\d+/work(\.new)?(/.*)?")
_HEADER = struct.Struct("<IIIIIIQQQQQ")  # as in recorder.cc
_MAGIC = 0x52575044
_BEGIN = struct.Struct("<Q40x")  # used bytes including these; a mutex


class Kind(IntEnum):
    CREATE = 1
    MKDIR = 2
    SYMLINK = 3
    LINK = 4
    RENAME = 5
    UNLINK = 6
    RMDIR = 7
    WRITE = 8
    TRUNCATE = 9
    SYNC = 10
    CHMOD = 11
    TIME = 12


@dataclass(frozen=True, slots=True)
class Op:
    """A record of the log; recorder.cc explains a, b and c."""

    kind: Kind
    process: int
    a: int
    b: int
    c: int
    time: int
    name: str
    name2: str
    data: bytes
    end: int  # where its record ends in the log


def log_bytes(path: Path) -> int:
    with open(path, "rb") as file:
        return int(_BEGIN.unpack(file.read(_BEGIN.size))[0])


def read_log(path: Path) -> list[Op]:
    with open(path, "rb") as file:
        log = file.read(log_bytes(path))
    ops, at = [], _BEGIN.size
    while at < len(log):
        magic, kind, process, name, name2, _, a, b, c, time, data = _HEADER.unpack_from(log, at)
        if magic != _MAGIC:
            raise ValueError(f"{path}: no record at byte {at}")
        at += _HEADER.size
        texts = []
        for length in (name, name2):
            texts.append(log[at : at + length].decode(errors="surrogateescape"))
            at += length
        content = log[at : at + data]
        at += data
        ops.append(Op(Kind(kind), process, a, b, c, time, texts[0], texts[1], content, at))
    return ops


@dataclass(frozen=True)
class Choice:
    """Which unsynced changes survive."""

    name: str
    data: str  # none, all, zeros (only the sizes), random
    names: str  # none, all, removals (and renames), random, prefix (the first ones)


KEPT = Choice("kept", "all", "all")  # as after kill -9
LOST = Choice("lost", "none", "none")
# The worst cases.
EXTREMES = (
    LOST,
    Choice("names", "none", "all"),
    Choice("sizes", "zeros", "all"),
    Choice("data", "all", "none"),
    Choice("removals", "none", "removals"),
)
RANDOM = (
    Choice("torn", "random", "random"),
    Choice("torn-journal", "random", "prefix"),
)


@dataclass(frozen=True)
class _Bytes:
    """A change of a file: bytes at an offset, or a new size."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class _Node:
    inode: int
    kind: Kind  # CREATE, MKDIR, SYMLINK
    mode: int
    time: int
    path: str  # at its creation
    durable: bytes = b""  # what is on the disk
    pending: list[_Bytes] = field(default_factory=list)
    # Entries of a directory: on the disk, and as programs see them.
    names: dict[str, "_Node"] = field(default_factory=dict)
    seen: dict[str, "_Node"] = field(default_factory=dict)


@dataclass(eq=False)
class _Change:
    """An atomic change of names: each name and its new node."""

    kind: Kind
    steps: list[tuple[_Node, str, _Node | None]]


@dataclass(frozen=True)
class Entry:
    kind: Kind
    mode: int
    content: bytes
    time: int = field(default=0, compare=False)


Tree = dict[str, Entry]


class Disk:
    """Replays a log. The recorded directory exists and is empty at the beginning."""

    def __init__(self, root: int, journal: bool = False) -> None:
        self._journal = journal
        self._root = _Node(root, Kind.MKDIR, 0o700, 0, "")
        self._nodes = {root: self._root}
        self._changes: list[_Change] = []  # of names, not yet on the disk

    def node_path(self, inode: int) -> str:
        """Path of a node as programs see it; unknown for a removed one."""
        return self.paths().get(inode, "")

    def paths(self) -> dict[int, str]:
        return {node.inode: path for path, node in self._walk(self._root, "")}

    def _walk(self, directory: _Node, prefix: str) -> Iterator[tuple[str, _Node]]:
        for name, node in directory.seen.items():
            yield prefix + name, node
            if node.kind == Kind.MKDIR:
                yield from self._walk(node, f"{prefix}{name}/")

    def apply(self, op: Op) -> None:
        kind = op.kind
        if kind in (Kind.WRITE, Kind.TRUNCATE):
            is_write = kind == Kind.WRITE
            self._nodes[op.a].time = op.time
            self._nodes[op.a].pending.append(_Bytes(op.b, op.data if is_write else None))
        elif kind == Kind.SYNC:
            self._sync(self._nodes[op.a])
        elif kind == Kind.CHMOD:
            self._nodes[op.a].mode = op.b
        elif kind == Kind.TIME:
            self._nodes[op.a].time = op.time
        else:
            self._rename(op) if kind == Kind.RENAME else self._name(op)

    def _name(self, op: Op) -> None:
        directory = self._nodes[op.a]
        if op.kind in (Kind.UNLINK, Kind.RMDIR):
            if op.name in directory.seen:  # not for sockets and the like
                self._change(_Change(op.kind, [(directory, op.name, None)]))
            return
        if op.kind != Kind.LINK:
            # The inode of a removed file may be reused.
            path = f"{directory.path}/{op.name}".lstrip("/")
            self._nodes[op.b] = _Node(op.b, op.kind, op.c, op.time, path, op.data)
        self._change(_Change(op.kind, [(directory, op.name, self._nodes[op.b])]))

    def _rename(self, op: Op) -> None:
        source, target = self._nodes[op.a], self._nodes[op.b]
        if op.name not in source.seen:
            return
        other = target.seen[op.name2] if op.c else None
        steps = [(source, op.name, other), (target, op.name2, source.seen[op.name])]
        self._change(_Change(op.kind, steps))

    def _change(self, change: _Change) -> None:
        for directory, name, node in change.steps:
            _set(directory.seen, name, node)
        if all(FREE.fullmatch(directory.path) for directory, _, _ in change.steps):
            for directory, name, node in change.steps:
                _set(directory.names, name, node)
        else:
            self._changes.append(change)

    def _sync(self, node: _Node) -> None:
        if node.kind == Kind.CREATE:
            node.durable = _content(node, "all", None)
            node.pending.clear()
        left: list[_Change] = []
        for change in self._changes:
            if self._journal or any(directory is node for directory, _, _ in change.steps):
                for directory, name, leads_to in change.steps:
                    _set(directory.names, name, leads_to)
                    for earlier in left:  # superseded, on the disk or not
                        earlier.steps = [
                            it for it in earlier.steps if (it[0], it[1]) != (directory, name)
                        ]
            else:
                left.append(change)
        self._changes = left

    def state(self, choice: Choice, rng: Random | None = None) -> Tree:
        """Returns the files after a power cut at this point, by path."""
        views: dict[_Node, dict[str, _Node]] = {}
        for change in self._kept(choice, rng):
            for directory, name, node in change.steps:
                view = views.setdefault(directory, dict(directory.names))
                _set(view, name, node)
        tree: Tree = {}
        self._fill(tree, self._root, "", views, choice, rng, set())
        return tree

    def _kept(self, choice: Choice, rng: Random | None) -> list[_Change]:
        changes = self._changes
        if choice.names == "none":
            return []
        if choice.names == "removals":
            removals = (Kind.UNLINK, Kind.RMDIR, Kind.RENAME)
            return [change for change in changes if change.kind in removals]
        if rng is not None and choice.names == "prefix":
            return changes[: rng.randint(0, len(changes))]
        if rng is not None and choice.names == "random":
            share = rng.choice((0.2, 0.5, 0.8))
            return [change for change in changes if rng.random() < share]
        return changes

    def _fill(
        self,
        tree: Tree,
        directory: _Node,
        prefix: str,
        views: dict[_Node, dict[str, _Node]],
        choice: Choice,
        rng: Random | None,
        above: set[int],
    ) -> None:
        for name, node in sorted(views.get(directory, directory.names).items()):
            if id(node) in above:
                continue  # moved into itself by a reordering, which fsck would repair
            how = _IN_ORDER[choice.data] if FREE.fullmatch(prefix + name) else choice.data
            content = b"" if node.kind == Kind.MKDIR else _content(node, how, rng)
            tree[prefix + name] = Entry(node.kind, node.mode, content, node.time)
            if node.kind == Kind.MKDIR:
                below = above | {id(node)}
                self._fill(tree, node, f"{prefix}{name}/", views, choice, rng, below)


def _set(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


# Data kept by files whose size grows only with their data, by the choice for others.
_IN_ORDER = {"none": "none", "zeros": "none", "random": "beginning", "all": "all"}


def _content(node: _Node, how: str, rng: Random | None) -> bytes:
    if not node.pending or how == "none":
        return node.durable
    content = bytearray(node.durable)
    if how == "beginning" and rng is not None:
        whole = _content(node, "all", None)
        return whole[: rng.randint(0, len(whole))]
    share = rng.choice((0.1, 0.5, 0.9)) if rng else 1.0
    most = rng.randint(0, len(node.pending)) if rng and rng.random() < 0.3 else len(node.pending)
    for change in node.pending[:most]:
        data = change.data
        if data is None:
            if how != "random" or rng is None or rng.random() < share:
                del content[change.offset :]
                content.extend(bytes(change.offset - len(content)))
            continue
        if how == "random" and rng is not None:
            _tear(content, change.offset, data, share, rng)
            continue
        content.extend(bytes(max(0, change.offset + len(data) - len(content))))
        if how == "all":
            content[change.offset : change.offset + len(data)] = data
    return bytes(content)


def _tear(content: bytearray, offset: int, data: bytes, share: float, rng: Random) -> None:
    """Writes some of the blocks. Unwritten blocks before a written one are zeros."""
    at = 0
    while at < len(data):
        end = min(len(data), (offset + at) // BLOCK * BLOCK + BLOCK - offset)
        if rng.random() < share:
            content.extend(bytes(max(0, offset + at - len(content))))
            content[offset + at : offset + end] = data[at:end]
        at = end


def write_tree(tree: Tree, root: Path) -> None:
    """Creates the files. REQUIRES: `root` is an empty directory."""
    modes: list[tuple[Path, int]] = []
    for name, entry in tree.items():
        path = root / name
        if entry.kind == Kind.MKDIR:
            path.mkdir()
            modes.append((path, entry.mode))
        elif entry.kind == Kind.SYMLINK:
            path.symlink_to(entry.content.decode())
        else:
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
            os.utime(path, ns=(entry.time, entry.time))
    for path, mode in reversed(modes):
        path.chmod(mode)


def read_tree(root: Path) -> Tree:
    """Returns the files, directories and links below `root`."""
    tree: Tree = {}
    for path in sorted(root.rglob("*")):
        name, mode = path.relative_to(root).as_posix(), path.lstat().st_mode & 0o7777
        if path.is_symlink():
            tree[name] = Entry(Kind.SYMLINK, mode, str(path.readlink()).encode())
        elif path.is_dir():
            tree[name] = Entry(Kind.MKDIR, mode, b"")
        elif path.is_file():
            tree[name] = Entry(Kind.CREATE, mode, path.read_bytes())
    return tree
