"""Tools of this machine that faults need. Faults whose tool is missing are skipped by name."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

_INSIDE = "CRASH_TEST_NAMESPACE"


def date() -> int:
    """Returns today's date, the default seed: it changes daily and can be repeated."""
    return int(f"{datetime.now(timezone.utc):%Y%m%d}")


def _works(*line: str) -> bool:
    if shutil.which(line[0]) is None:
        return False
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def enter_mount_namespace() -> None:
    """Restarts this program in a mount namespace if possible, so that mounts disappear with the
    process."""
    if _INSIDE in os.environ:
        return
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", "--mount", "--propagation", "private", *root]
    if _works(*unshare, "true"):
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def faketime_library() -> str:
    """Returns the library that `faketime` preloads, or "" if it is missing. The program itself
    would be an additional process."""
    if shutil.which("faketime") is None:
        return ""
    line = ["faketime", "-f", "+0", "printenv", "LD_PRELOAD"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def mount_small(directory: Path) -> None:
    options = "size=640m,nr_inodes=2000,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)


def make_read_only(directory: Path) -> None:
    """Mounts the directory over itself. The mount is made read-only at a place where no process can
    open a file in it, which would make it busy, and then moved."""
    with tempfile.TemporaryDirectory(prefix="dtrain-crash-mount-") as place:
        subprocess.run(["mount", "--bind", directory, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        subprocess.run(["mount", "--move", place, directory], check=True)


def unmount(directory: Path) -> None:
    subprocess.run(["umount", "--lazy", directory], check=True)


def _has_compiler(dtrain: Path) -> bool:
    """True if the compiler that this dtrain uses for models exists."""
    try:
        text = (dtrain.parents[1] / "lib/dtrain/model_build.json").read_text(encoding="utf-8")
    except OSError:
        return False
    return shutil.which(json.loads(text)["compiler"]) is not None


def missing(scratch: Path, dtrain: Path) -> dict[str, str]:
    """Returns the tools that do not work here, each with the reason."""
    reasons = {}
    if not _works("strace", "-qq", "-o", "/dev/null", "true"):
        reasons["strace"] = "strace is not installed or not permitted"
    if not faketime_library():
        reasons["faketime"] = "faketime is not installed"
    elif not _works("env", f"LD_PRELOAD={faketime_library()}", str(dtrain), "version"):
        reasons["faketime"] = "this build does not run under faketime"  # a sanitizer's, for one
    if not _has_compiler(dtrain):
        reasons["compiler"] = "their compiler is not installed"
    place = scratch / "mount"
    place.mkdir(parents=True, exist_ok=True)
    try:
        mount_small(place)
        unmount(place)
    except (OSError, subprocess.CalledProcessError):
        reasons["tmpfs"] = "mounting file systems is not permitted"
    return reasons
