"""What this machine has for making faults; what it has not is skipped by name."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

_INSIDE = "CRASH_TEST_NAMESPACE"


def date() -> int:
    """Today's, the default seed: each day tries something else, and its runs can be repeated."""
    return int(f"{datetime.now(timezone.utc):%Y%m%d}")


def _works(*line: str) -> bool:
    if shutil.which(line[0]) is None:
        return False
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def enter_mount_namespace() -> None:
    """Starts this program again where it may mount, if there is such a place: what is mounted
    there goes with the process, however that ends."""
    if _INSIDE in os.environ:
        return
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", "--mount", "--propagation", "private", *root]
    if _works(*unshare, "true"):
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def faketime_library() -> str:
    """What `faketime` preloads: it would stand between us and the program. Empty if missing."""
    if shutil.which("faketime") is None:
        return ""
    line = ["faketime", "-f", "+0", "printenv", "LD_PRELOAD"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def mount_small(directory: Path) -> None:
    options = "size=256m,nr_inodes=2000,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)


def unmount(directory: Path) -> None:
    subprocess.run(["umount", "--lazy", directory], check=True)


def _has_compiler(dtrain: Path) -> bool:
    """Whether what this dtrain compiles models with is there."""
    try:
        text = (dtrain.parents[1] / "lib/dtrain/model_build.json").read_text(encoding="utf-8")
    except OSError:
        return False
    return shutil.which(json.loads(text)["compiler"]) is not None


def missing(scratch: Path, dtrain: Path) -> dict[str, str]:
    """Each tool that faults may need and that does not work here, with the reason."""
    reasons = {}
    if not _works("strace", "-qq", "-o", "/dev/null", "true"):
        reasons["strace"] = "strace is not installed, or may not trace here"
    if not faketime_library():
        reasons["faketime"] = "faketime is not installed"
    elif not _works("env", f"LD_PRELOAD={faketime_library()}", str(dtrain), "version"):
        reasons["faketime"] = "this build does not run under faketime"  # a sanitizer's, for one
    if not _has_compiler(dtrain):
        reasons["compiler"] = "what compiles them is not here"
    place = scratch / "mount"
    place.mkdir(parents=True, exist_ok=True)
    try:
        mount_small(place)
        unmount(place)
    except (OSError, subprocess.CalledProcessError):
        reasons["tmpfs"] = "may not mount a file system here"
    return reasons
