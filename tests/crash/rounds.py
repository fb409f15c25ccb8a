"""One round: runs an experiment with faults, resumes it to its end and checks the invariants; and
the undisturbed runs that rounds are compared with."""

import shutil
import sqlite3
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import bounds
import invariants
import processes
import record
import tools
from bounds import Bound
from compare import Excuses, Outcome, compare, outcome_of
from configurations import Configuration
from experiment import Runner, Store
from faults import Fault
from faults_commands import end_what_was_begun
from invariants import Acknowledged, Violation, check_bounds
from record import Record
from scene import Launch, Scene, draw_moment, wait_for

# Maximum number of resumes until the end after the last fault.
MAX_RESUMES = 3
# Exit codes of a runner that was asked to end by a signal or a request.
_ENDED_BY_REQUEST = (1, 75, 129, 130, 143)
_STATES_OF_CODES = {
    0: {"COMPLETED"},
    1: {"ERROR", "CANCELED"},
    5: {"PENDING", "RUNNING", "PAUSED"},
    75: {"PAUSED"},
    129: {"PAUSED"},
    130: {"PAUSED"},
    143: {"PAUSED"},
}


@dataclass
class Report:
    """Actions and findings of a round."""

    configuration: str
    made: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    violations: list[Violation] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    peak_kib: int = 0


@dataclass(frozen=True)
class Undisturbed:
    outcome: Outcome
    code: int
    seconds: float
    counts: dict[str, int]  # of printed events by kind, and of checkpoint directories
    violations: list[Violation]


def run_undisturbed(configuration: Configuration, store: Store) -> Undisturbed:
    """Runs the experiment without faults and checks it like a disturbed one."""
    store.prepare(configuration)
    if configuration.is_own_model:
        _compile(store)
    runner = store.start(*store.creation)
    try:
        saw_processes = False
        while runner.wait(0.02) is None and runner.age < bounds.UNDISTURBED.limit:
            if not saw_processes:
                saw_processes = any(it.of_experiment for it in processes.living(store.mark))
        bounds.UNDISTURBED.see(runner.age)
        violations = invariants.check_members(runner)
        violations += invariants.check_processes(store, spares_daemons=False)
    finally:
        processes.kill_all(store.mark)
    now = record.read(store)
    if runner.code is None or now is None or now.state not in record.FINAL:
        raise RuntimeError(f"{configuration.name} does not run at all: {runner.result()}")
    if not saw_processes:
        raise RuntimeError("no process carries the mark: survivors would not be seen")
    counts = Counter(line["event"] for line in runner.events())
    counts["directory"] = counts["checkpoint"]
    result, outcome = runner.result(), outcome_of(store, now)
    violations += compare(configuration, outcome, outcome, Excuses()) + invariants.check(store)
    return Undisturbed(outcome, runner.code, result.seconds, dict(counts), violations)


def _compile(store: Store) -> None:
    """Compiles the model into the cache, so that no fault hits the compiler."""
    result = store.command(*store.creation, "--test", bound=bounds.COMPILES)
    if result.code != 0:
        raise RuntimeError(f"cannot compile the model: {result}")


def _bound_of(fault: Fault | None, on_slurm: bool) -> Bound:
    """Returns how much longer than the undisturbed run one with this fault may take."""
    if on_slurm:
        return bounds.JOB_RUNS
    needs = fault.needs if fault else ""
    return {"strace": bounds.TRACED_RUNS, "tmpfs": bounds.FULL_RUNS}.get(needs, bounds.RUNS)


class Round:
    def __init__(
        self,
        store: Store,
        configuration: Configuration,
        undisturbed: Undisturbed,
        faults: list[Fault],
        rng: Random,
    ) -> None:
        self.undisturbed = undisturbed
        self.faults = [fault for fault in faults if fault.after is None]
        # `delete` comes last, since nothing is left afterwards.
        last = [fault for fault in faults if fault.after is not None]
        self.last = sorted(last, key=lambda fault: fault.name.startswith("delete"))
        self.known = Acknowledged()
        self.heard = 0  # number of the runner's lines that were read
        self.report = Report(configuration.name)
        outcome = undisturbed.outcome
        self.scene = Scene(store, configuration, outcome, undisturbed.seconds, rng)
        self.scene.violations += undisturbed.violations
        self.was_ended = False  # by a final fault
        self.was_struck = False  # whether the runner lived at the moment of the fault
        self.struck_at = 0.0  # by the monotonic clock

    def play(self) -> Report:
        store = self.scene.store
        on_tmpfs = any(fault.needs == "tmpfs" for fault in self.faults)
        if on_tmpfs:
            tools.mount_small(store.home / "disk")
        try:
            store.prepare(self.scene.configuration)
            self._play()
        except (LookupError, OSError, ValueError, sqlite3.Error) as error:
            text = f"{traceback.format_exc(limit=-2)}{error!r}"
            self.scene.violate("I1", f"cannot be checked: {text}")
        finally:
            processes.kill_all(store.mark)
            if on_tmpfs:
                self._save_from_tmpfs()
        # A lasting violation is found after each fault.
        self.report.violations = list(dict.fromkeys(self.scene.violations))
        return self.report

    def _save_from_tmpfs(self) -> None:
        disk = self.scene.store.home / "disk"
        saved = self.scene.store.home / "saved"
        if self.scene.violations:
            shutil.copytree(disk, saved, symlinks=True)
        tools.unmount(disk)
        if self.scene.violations:
            disk.rmdir()
            saved.rename(disk)

    def _play(self) -> None:
        for fault in self.faults:
            if not self._disturb(fault):
                break
        for _ in range(MAX_RESUMES):
            if self._is_over():
                break
            self._attempt(None)
        else:
            if not self._is_over():
                text = f"has not ended after {MAX_RESUMES} resumes without a fault"
                self.scene.violate("I6", text)
        self._check_the_end()
        for fault in self.last:
            self._disturb_what_has_ended(fault)
        end_what_was_begun(self.scene)
        self._end_those_beside()
        self.scene.violations += invariants.check_garbage(self.scene.store)
        self.scene.violations += self._check_store()

    def _disturb_what_has_ended(self, fault: Fault) -> None:
        scene = self.scene
        scene.runner = None
        now = record.read(scene.store)
        was_made = fault.after is not None and now is not None and fault.after(scene)
        self._count(fault, was_made, "")
        self._check_after_fault(spares_daemons=False)

    def _disturb(self, fault: Fault) -> bool:
        """Makes a fault; returns False if the experiment has already ended."""
        if self._is_over():
            self.report.missed[fault.name] += 1
            return False
        if fault.between is None:
            return self._attempt(fault)
        self._count(fault, fault.between(self.scene), "")
        return True

    def _count(self, fault: Fault, was_made: bool, when: str) -> None:
        (self.report.made if was_made else self.report.missed)[fault.name] += 1
        self.scene.is_reordered |= was_made and fault.restarts_trials
        self.scene.lacks_checkpoints |= was_made and fault.spoils_checkpoints
        text = f"{fault.name} {when}".strip()
        self.report.story.append(text if was_made else f"({text}: missed)")

    def _is_over(self) -> bool:
        if self.was_ended:
            return True
        now = record.read(self.scene.store)
        return now is not None and now.state in record.FINAL

    def _is_deleted(self) -> bool:
        return any(fault.name.startswith("delete") for fault in self.last)

    def _attempt(self, fault: Fault | None) -> bool:
        """Runs `create` or `resume`, with a fault or to the end."""
        scene = self.scene
        is_recorded = record.read(scene.store) is not None
        words = ("resume", "1") if is_recorded else scene.store.creation
        self.report.resumes += is_recorded
        launch = fault.launch(scene) if fault and fault.launch else Launch()
        scene.runner = scene.store.start(
            *words,
            *launch.options,
            wrapper=launch.wrapper,
            variables=launch.variables,
            quiet=launch.quiet,
        )
        self.heard = 0
        self.was_struck = False
        was_made = fault is not None and self._strike(fault)
        self._end(scene.runner, _bound_of(fault, scene.configuration.on_slurm))
        if was_made and fault is not None and scene.runner.code in fault.exits:
            self._check_request(scene.runner)
        if fault is not None and fault.is_announced:
            scene.violations += invariants.check_announced(scene.runner.result())
        if fault is None or not fault.is_mute:
            scene.violations += invariants.check_words(scene.runner.result())
        if fault is not None and fault.was_made is not None:
            was_made = fault.was_made(scene)
            self._count(fault, was_made, launch.when)
        self.was_ended = fault is not None and fault.is_final and was_made
        self._check_code(scene.runner, fault, was_made)
        self._listen(scene.runner)
        self._end_those_beside()
        self._check_after_fault(fault is not None and fault.spares_daemons)
        return True

    def _strike(self, fault: Fault) -> bool:
        scene = self.scene
        if fault.strike is None:
            return False  # `launch` makes it, and `was_made` reports it
        moment = fault.moment
        if moment is None:
            on_slurm = scene.configuration.on_slurm
            counts = self.undisturbed.counts
            moment = draw_moment(scene.rng, scene.seconds, counts, on_slurm)
        self.was_struck = wait_for(moment, scene)
        was_made = self.was_struck and fault.strike(scene)
        self.struck_at = time.monotonic()
        if fault.was_made is None:
            self._count(fault, was_made, str(moment))
        return was_made

    def _check_request(self, runner: Runner) -> None:
        """I9: a runner that was asked to end does so soon."""
        seconds = runner.ended - self.struck_at
        bound = bounds.JOB_ENDS if runner.on_slurm else bounds.ENDS
        if runner.code in _ENDED_BY_REQUEST and not bound.see(seconds):
            self.scene.violate("I9", f"ended {seconds:.0f} s after it was asked to: {runner.words}")

    def _end(self, runner: Runner, bound: Bound) -> None:
        """Waits for the end of a runner with its trials and readers."""
        scene = self.scene
        # Concurrent experiments share the slots.
        undisturbed = scene.seconds * (1 + len(scene.beside))
        while (code := runner.wait(0.1)) is None and runner.age < undisturbed + bound.limit:
            self._watch(runner)
        is_in_time = bound.see(runner.age - undisturbed)
        result = runner.result()
        scene.violations += check_bounds(result, is_in_time, runner.peak_kib)
        if code is None:
            processes.kill_all(scene.store.mark)
            runner.wait()
        scene.violations += invariants.check_members(runner)
        for undo in scene.undo:
            undo()
        scene.undo.clear()
        self.report.peak_kib = max(self.report.peak_kib, runner.peak_kib)

    def _listen(self, runner: Runner) -> None:
        """Reads the events that were printed since the last call."""
        events = runner.events()
        self.scene.violations += self.known.add(events[self.heard :])
        self.heard = len(events)

    def _watch(self, runner: Runner) -> None:
        """Checks that printed metrics are stored while the runner runs."""
        self._listen(runner)
        try:
            now = record.read(self.scene.store)
        except sqlite3.Error as error:
            self.scene.violate("I2", f"a reader cannot read beside the runner: {error!r}")
            return
        if now is not None:
            self.scene.violations += invariants.check_metrics(self.known, now)

    def _check_code(self, runner: Runner, fault: Fault | None, was_made: bool) -> None:
        allowed = {self.undisturbed.code}
        if fault is not None and (was_made or self.was_struck):
            allowed |= fault.exits
        if runner.code is None:
            return  # reported as I9
        if runner.code not in allowed:
            name = fault.name if fault else "no fault"
            text = f"{name}: {runner.result()}, not with one of {sorted(allowed)}"
            self.scene.violate("I8", text)
        now = record.read(self.scene.store)
        self.scene.violations += invariants.check_death(runner, now)
        if fault is not None and fault.is_mute:
            return  # its exit code is that of its output, not of the experiment
        states = _STATES_OF_CODES.get(runner.code)
        if now is not None and states is not None and now.state not in states:
            self.scene.violate("I8", f"exit code {runner.code}, but the experiment is {now.state}")

    def _check_after_fault(self, spares_daemons: bool) -> None:
        scene = self.scene
        found = invariants.check_jobs(scene.store)
        found += invariants.check_processes(scene.store, spares_daemons)
        processes.kill_all(scene.store.mark)
        found += self._check_store()
        is_gone = self.known.metrics and record.read(scene.store) is None
        if is_gone and not self._is_deleted():
            found.append(Violation("I2", "metrics were printed, but nothing is recorded"))
        scene.violations += found

    def _check_store(self) -> list[Violation]:
        scene = self.scene
        saves_best = not scene.lacks_checkpoints
        return invariants.check(scene.store, {1: self.known}, scene.damaged, saves_best)

    def _end_those_beside(self) -> None:
        """Checks that concurrent experiments end like this one."""
        scene = self.scene
        for runner in scene.beside:
            start = time.monotonic()
            code = runner.wait(scene.seconds + bounds.NEIGHBOURS.limit)
            is_in_time = bounds.NEIGHBOURS.see(time.monotonic() - start - scene.seconds)
            scene.violations += check_bounds(runner.result(), is_in_time, runner.peak_kib)
            scene.violations += invariants.check_members(runner)
            begins = [line for line in runner.events() if line["event"] == "begin"]
            now = record.read(scene.store, begins[0]["experiment"]) if begins else None
            if now is None or code != self.undisturbed.code:
                self.scene.violate("D8", f"beside another experiment: {runner.result()}")
                continue
            outcome = outcome_of(scene.store, now, begins[0]["experiment"])
            # Kills and damages concern the other experiment only; both share the disk.
            excuses = Excuses(
                is_reordered=scene.is_reordered, lacks_checkpoints=scene.lacks_checkpoints
            )
            expected = self.undisturbed.outcome
            found = compare(scene.configuration, expected, outcome, excuses)
            scene.violations += [Violation("D8", f"beside another: {it}") for it in found]
        scene.beside.clear()

    def _check_the_end(self) -> None:
        scene = self.scene
        self._check_damaged()
        now = record.read(scene.store)
        if now is None or now.state not in record.FINAL:
            if self.was_ended:
                state = now.state if now else "not recorded"
                self.scene.violate("I7", f"was ended, but is {state}")
            return  # reported by _play
        if now.state == "CANCELED":
            self._check_canceled(now)
        else:
            self._compare(now)

    def _compare(self, now: Record) -> None:
        scene = self.scene
        outcome = outcome_of(scene.store, now)
        # A damaged checkpoint may have been the last one of a trial that was already finished.
        lost = {
            it["number"] for it in now.checkpoints
            if it["uuid"] in scene.damaged and it["number"] not in outcome.weights
        }
        for number in lost:
            outcome.weights[number] = self.undisturbed.outcome.weights.get(number, {})
        excuses = scene.excuses(now)
        scene.violations += compare(
            scene.configuration, self.undisturbed.outcome, outcome, excuses
        )
        if scene.configuration.on_slurm and all(it.is_gentle for it in self.faults):
            expected = self.undisturbed.outcome.record
            scene.violations += invariants.check_restarts(now, expected)

    def _check_damaged(self) -> None:
        """D4: damaged checkpoints are found, by the next resume or by `checkpoint verify`."""
        scene = self.scene
        if not scene.damaged:
            return
        result = scene.store.command("checkpoint", "verify")
        if result.code not in (0, 1):
            self.scene.violate("D4", str(result))
        now = record.read(scene.store)
        for checkpoint in now.checkpoints if now else []:
            if checkpoint["uuid"] in scene.damaged and checkpoint["state"] == "COMPLETED":
                self.scene.violate("D4", f"{checkpoint['uuid']} is damaged and still COMPLETED")

    def _check_canceled(self, now: Record) -> None:
        killed = self.scene.canceled
        is_killed = killed and all(
            number in killed or trial["state"] == "ERROR" for number, trial in now.trials.items()
        )
        if not (self.was_ended or is_killed):
            self.scene.violate("I6", "the experiment is CANCELED without a request")
        result = self.scene.store.command("resume", "1")
        self.scene.violations += invariants.check_words(result)
        if result.code != 1:
            self.scene.violate("I8", f"a canceled experiment was resumed: {result}")
