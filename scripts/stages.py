"""Run a list of `ad2` commands, the stages of a script, so that the same call resumes after kill -9 or Ctrl-C.

Files of a folder OUT:
    stages.jsonl        journal: a line when a stage begins and one when it ends
    stages.md           table: outcome, wall time and peak memory of each stage; written after each stage
    logs/<stage>.log    output of the stage's command: of all attempts, of a repeated stage of the last one
A stage is finished if its command ended with code 0, with the same arguments, weights and version of this package. A
finished stage is skipped. A failed one does not stop the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from process_memory import MemorySampler, gpu_of, gpu_used_mib, larger

import lmms_eval_ad2
from closedloop_plugin.learn.model_folder import check_device
from lmms_eval_ad2.core.parent_process import exit_with_parent
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read
from lmms_eval_ad2.storage.lock import lock_folder

AD2 = (sys.executable, "-m", "lmms_eval_ad2.cli.main")
END_S = 60  # that an interrupted command has to save its work
_CAUSE = re.compile(r"error\b|exception\b|out of memory|killed", re.IGNORECASE)


@dataclass(frozen=True)
class Stage:
    """A step of a script.

    name: unique, part of its log's name. words: arguments of `ad2`. weights: hashes of local files that the command
    reads. repeated: it runs in each call, finished or not. missing: why it cannot run; such a stage is left out.
    """

    name: str
    words: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    repeated: bool = False
    missing: str = ""

    @property
    def key(self) -> str:
        """Equal for equal arguments, weights and version."""
        text = json.dumps([self.words, dict(self.weights), lmms_eval_ad2.__version__])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def shown(self) -> str:
        """The command for a shell."""
        return shlex.join(("ad2", *self.words))


@dataclass
class StageHistory:
    """All attempts of a stage with its present key, from the journal. unknown: attempts without an end (kill -9)."""

    attempts: int = 0
    unknown: int = 0
    seconds: float = 0.0
    code: int | None = None  # of the last ended attempt
    interrupted: bool = False  # the last attempt was
    host_mib: int | None = None
    gpu_mib: int | None = None
    gpu_before_mib: int | None = None  # of the last attempt
    gpu_absent: str = ""

    @property
    def finished(self) -> bool:
        return self.code == 0 and not self.interrupted

    def add(self, line: Mapping[str, Any]) -> None:
        if line["event"] == "begin":
            self.attempts, self.unknown, self.interrupted = self.attempts + 1, self.unknown + 1, True
            return
        self.unknown, self.interrupted = self.unknown - 1, bool(line["interrupted"])
        self.seconds += line["seconds"]
        self.code = line["code"]
        self.host_mib = larger(self.host_mib, line["host_mib"])
        self.gpu_mib, self.gpu_before_mib = larger(self.gpu_mib, line["gpu_mib"]), line["gpu_before_mib"]
        self.gpu_absent = line["gpu_absent"]


class StageRunner:
    """Runs stages in a locked folder. gpu, gpu_absent: see process_memory.gpu_of. env: variables for all commands."""

    def __init__(
        self, out: Path, gpu: str | None = None, gpu_absent: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        self.out, self.gpu, self.gpu_absent = out, gpu, gpu_absent
        self.env = {**os.environ, **(env or {})}

    def run(self, stages: Sequence[Stage], *, stop_at_failure: bool = False) -> int:
        """Run what is not finished. Returns 0 if all stages are finished, else 1; raises KeyboardInterrupt.

        stop_at_failure: the stages after a failed one depend on it and are not begun.
        """
        with lock_folder(self.out), JournalFile(self.out / "stages.jsonl") as journal:
            try:
                for number, stage in enumerate(stages, 1):
                    self._one(f"[{number}/{len(stages)}] {stage.name}", stage, journal)
                    self._write(stages)
                    if stop_at_failure and not self.histories([stage])[stage.name].finished:
                        break
            finally:
                self._write(stages)
        histories = self.histories(stages)
        bad = [stage for stage in stages if not histories[stage.name].finished]
        if stop_at_failure:
            bad = bad[:1]
        for stage in bad:
            print(f"not finished: {stage.name}: {stage.missing or self._failure(stage, histories[stage.name])}")
        return 1 if bad else 0

    def histories(self, stages: Sequence[Stage]) -> dict[str, StageHistory]:
        """By name. Raises DataError for a broken line of the journal."""
        found = {stage.name: StageHistory() for stage in stages}
        keys = {stage.name: stage.key for stage in stages}
        for line in read(self.out / "stages.jsonl", parse_object):
            name = line.value["stage"]
            if keys.get(name) == line.value["key"]:
                found[name].add(line.value)
        return found

    def table(self, stages: Sequence[Stage]) -> Table:
        histories = self.histories(stages)
        rows = [_row(stage, histories[stage.name], self.gpu_absent) for stage in stages]
        total = _clock(sum(history.seconds for history in histories.values()))
        least = "≥ " if any(history.unknown for history in histories.values()) else ""
        rows.append(("all stages", "", f"{least}{total}", "", "", ""))
        return Table(("stage", "outcome", "wall time", "attempts", "peak host MiB", "peak GPU MiB"), rows, "llrrrr")

    def _write(self, stages: Sequence[Stage]) -> None:
        with atomic_write(self.out / "stages.md") as file:
            file.write(f"{self.table(stages).markdown()}\n")

    def _one(self, title: str, stage: Stage, journal: JournalFile) -> None:
        before = self.histories([stage])[stage.name]
        if stage.missing:
            print(f"{title}: left out: {stage.missing}", flush=True)
            return
        if before.finished and not stage.repeated:
            print(f"{title}: finished before, in {_clock(before.seconds)}; skipped", flush=True)
            return
        print(f"{title}: {'resumes' if before.attempts else 'starts'}; log: {self.log(stage)}", flush=True)
        _append(journal, stage, event="begin", time=round(time.time()), words=stage.words)
        seconds = self._attempt(stage, journal)
        after = self.histories([stage])[stage.name]
        state = "done" if after.finished else f"FAILED: {self._failure(stage, after)}"
        print(f"{title}: {state}; {_clock(seconds)}, {_memory_text(after)}", flush=True)

    def _attempt(self, stage: Stage, journal: JournalFile) -> float:
        """Run the command and note its end; returns its wall time, s."""
        log = self.log(stage)
        log.parent.mkdir(parents=True, exist_ok=True)
        idle = gpu_used_mib(self.gpu) if self.gpu is not None else None
        began, code, interrupted = time.monotonic(), -1, True
        with log.open("wb" if stage.repeated else "ab") as output:
            output.write(f"$ {stage.shown}\n".encode())
            output.flush()
            process = subprocess.Popen(
                [*AD2, *stage.words], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self.env,
                start_new_session=True, preexec_fn=partial(_begin, os.getpid()),
            )  # fmt: skip
            memory = MemorySampler(process.pid, self.gpu)
            try:
                with memory:
                    code, interrupted = process.wait(), False
            except KeyboardInterrupt:  # may also come before the first sample
                code = _interrupt(process)
                raise
            finally:
                seconds = time.monotonic() - began
                _append(
                    journal, stage, event="end", code=code, interrupted=interrupted, seconds=round(seconds, 1),
                    host_mib=memory.host_mib, gpu_mib=memory.gpu_mib, gpu_before_mib=idle,
                    gpu_absent=self.gpu_absent,
                )  # fmt: skip
        return seconds

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', stage.name)}.log"

    def _failure(self, stage: Stage, history: StageHistory) -> str:
        if history.interrupted:
            return "interrupted; the same command resumes"
        return f"exit code {history.code}: {cause_in(self.log(stage))}"


def run_stages(
    stages: Sequence[Stage], out: Path, device: str, env: Mapping[str, str], *, stop_at_failure: bool = False
) -> int:
    """Run them as StageRunner.run and print their table. The last one writes OUT/report.html: it is named if it did."""
    runner = StageRunner(out, *gpu_of(device), env=env)
    code = runner.run(stages, stop_at_failure=stop_at_failure)
    print(f"\n{runner.table(stages).plain()}\n")
    finished = runner.histories(stages[-1:])[stages[-1].name].finished
    page = f"tables: {runner.log(stages[-1])}; page: {out / 'report.html'}; " if finished else ""
    print(f"{page}times: {out / 'stages.md'}")
    return code


def refuse_missing(device: str) -> None:
    """Raises Ad2Error if PyTorch cannot compute there, before the first of many stages needs it. Asked in a process of
    its own, whose memory of host and GPU is free again when the stages begin."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        other.submit(check_device, device, 1).result()


def cause_in(log: Path) -> str:
    """The line of a log's end that names the error, else its last line."""
    with suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        named = [line for line in lines[-15:] if _CAUSE.search(line)]
        if lines:
            return one_line((named or lines)[-1])[:300]
    return "no output"


def _append(journal: JournalFile, stage: Stage, **values: Any) -> None:
    journal.append(json.dumps({"stage": stage.name, "key": stage.key, **values}).encode())


def _begin(parent: int) -> None:
    """Of a command: end with this script, and accept Ctrl-C, which a script in the background inherits as ignored."""
    exit_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(process: subprocess.Popen[bytes]) -> int:
    """Pass Ctrl-C on to the command, which is in a session of its own, and wait until it has saved its work."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        return process.wait(END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def _row(stage: Stage, history: StageHistory, gpu_absent: str) -> tuple[str, ...]:
    least = "≥ " if history.unknown else ""  # attempts that were killed left no figures
    outcome = "finished" if history.finished else "interrupted" if history.interrupted else "failed"
    if not history.attempts:
        return (stage.name, "left out" if stage.missing else "not run", "–", "0", "–", gpu_absent or "–")
    host = "unknown" if history.host_mib is None else f"{least}{history.host_mib:,}"
    gpu = _gpu(history) if history.gpu_mib is None else f"{least}{_gpu(history)}"
    return stage.name, outcome, f"{least}{_clock(history.seconds)}", str(history.attempts), host, gpu


def _gpu(history: StageHistory) -> str:
    if history.gpu_absent or history.gpu_mib is None:
        return history.gpu_absent or "unknown"
    idle = f" ({history.gpu_before_mib:,} before)" if history.gpu_before_mib is not None else ""
    return f"{history.gpu_mib:,}{idle}"


def _memory_text(history: StageHistory) -> str:
    host = "unknown" if history.host_mib is None else f"{history.host_mib:,} MiB"
    unit = "" if history.gpu_absent or history.gpu_mib is None else " MiB"
    return f"peak memory: host {host}, GPU {_gpu(history)}{unit}"


def _clock(seconds: float) -> str:
    """h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
