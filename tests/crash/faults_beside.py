"""Faults by other processes on the same store: requests, readers, second runners."""

import signal
import sqlite3
import threading
import time

import processes
import record
from faults import KILLED, Fault
from invariants import Violation
from scene import Scene


def pause(scene: Scene) -> bool:
    result = scene.call("pause", "1", codes={0, 1, 3})
    return result.code == 0


def _end(verb: str, scene: Scene) -> bool:
    result = scene.call(verb, "1", codes={0, 1, 3})
    return result.code == 0


def cancel(scene: Scene) -> bool:
    return _end("cancel", scene)


def kill(scene: Scene) -> bool:
    return _end("kill", scene)


def kill_one_trial(scene: Scene) -> bool:
    now = record.read(scene.store)
    open_trials = [] if now is None else [
        number for number, trial in now.trials.items() if trial["state"] not in record.FINAL
    ]
    if not open_trials:
        return False
    number = scene.rng.choice(open_trials)
    scene.canceled.add(number)  # even if it comes too late
    return scene.call("kill", f"1.{number}", codes={0, 1}).code == 0


def resume_beside(scene: Scene) -> bool:
    """Starts a second runner, which must be refused at once and name the first one."""
    pid = scene.runner.pid() if scene.runner else None
    if record.read(scene.store) is None or pid is None:
        return False
    result = scene.store.command("resume", "1")
    if not scene.alive or "already COMPLETED" in result.err:
        return False  # the first one just ended, so the second one may have resumed or not
    if result.code != 5 or str(pid) not in result.err:
        text = f"a second runner beside process {pid}: {result}"
        scene.violations.append(Violation("D8", text))
    return True


def create_beside(scene: Scene) -> bool:
    """Starts another experiment of the same kind on the same store and slots."""
    if not scene.store.database.exists():
        return False
    scene.beside.append(scene.store.start(*scene.store.creation))
    return True


def create_beside_and_kill(scene: Scene) -> bool:
    """Leaves the other experiment running, whatever its neighbour left behind."""
    pid = scene.runner.pid() if scene.runner else None
    if pid is None or not create_beside(scene):
        return False
    scene.nap(1)
    return processes.signal(pid, signal.SIGKILL)


def readers(scene: Scene) -> bool:
    commands = [
        ("list", "--json"),
        ("trials", "1", "--json"),
        ("metrics", "1", "--csv"),
        ("metrics", "1", "--json"),
        ("checkpoints", "1", "--json"),
        ("describe", "1", "--json"),
        ("describe", "1"),
        ("logs", "1", "--json"),
        ("logs", "1"),
        ("slots", "--json"),
        ("doctor", "--json"),
    ]
    if record.read(scene.store) is None:
        return False
    for _ in range(scene.rng.randint(3, 12)):
        words = scene.rng.choice(commands)
        scene.call(*words, codes={0, 1} if words[0] == "doctor" else {0})
    return True


def backup(scene: Scene) -> bool:
    if not scene.store.database.exists():
        return False
    path = scene.store.home / "backup.db"
    path.unlink(missing_ok=True)
    result = scene.call("backup", str(path), codes={0})
    if result.code != 0:
        return False
    copy = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = [row[0] for row in copy.execute("PRAGMA integrity_check")]
    copy.close()
    if found != ["ok"]:
        scene.violations.append(Violation("I1", f"the backup {path}: {found[:3]}"))
    return True


def stuck_reader(scene: Scene) -> bool:
    """Keeps SQLite from checkpointing the write-ahead log for a while."""
    if record.read(scene.store) is None:
        return False
    seconds = scene.rng.uniform(0.5, 3)

    def hold() -> None:
        with record.connection(scene.store) as database:
            database.execute("BEGIN")
            database.execute("SELECT count(*) FROM metrics").fetchone()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    scene.undo.append(thread.join)
    return True


def held_write_lock(scene: Scene) -> bool:
    """Holds the write lock: the runner must wait and lose nothing."""
    import fcntl

    path = scene.store.root / "dtrain.db.lock"
    if not path.exists():
        return False
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        time.sleep(scene.rng.uniform(0.1, 1.5))
    return True


BESIDE_FAULTS = [
    Fault("pause", frozenset({75}), pause),
    Fault("cancel", frozenset({1}), cancel, is_final=True),
    Fault("kill", frozenset({1}), kill, is_final=True),
    # Ends the experiment if this was its only trial.
    Fault("kill one trial", frozenset({1}), kill_one_trial),
    # A second runner that is faster than the first takes its lock.
    Fault("second resume", frozenset({5}), resume_beside),
    Fault("second create", strike=create_beside),
    Fault("second create, kill runner", frozenset({KILLED}), create_beside_and_kill),
    Fault("readers", strike=readers),
    Fault("backup", strike=backup),
    Fault("stuck reader", strike=stuck_reader),
    Fault("held write lock", strike=held_write_lock),
]
