"""A stand-in for SLURM's sbatch: runs the submitted script at once, the tasks of an array one after the other.

Understands the options of configs/slurm, on the command line and as #SBATCH lines: --parsable, --array=A-B or A,B,
--dependency=afterok:ID, --kill-on-invalid-dep=yes, --output with %A, %a, %j; of resources only the names are checked.
Like SLURM it runs a copy of the script, from the folder of submission, with the submitter's environment. The states of
the jobs are in the folder FAKE_SLURM: jobs.json, {ID: [exit codes]}; a job that is cancelled has no code.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RESOURCES = ("job-name", "nodes", "gpus-per-node", "cpus-per-task", "mem", "time")
GPUS = "FAKE_SLURM_GPUS"  # GPUs of a node; default: as requested


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser("sbatch", allow_abbrev=False)
    for name in ("array", "dependency", "kill-on-invalid-dep", "output", *RESOURCES):
        found.add_argument(f"--{name}")
    for name in ("parsable", "requeue"):
        found.add_argument(f"--{name}", action="store_true")
    return found


def main(words: Sequence[str]) -> int:
    *options, script = words
    lines = Path(script).read_text("utf-8").splitlines()
    in_file = [word for line in lines if line.startswith("#SBATCH ") for word in line.split()[1:]]
    job = parser().parse_args([*in_file, *options])
    states = Path(os.environ["FAKE_SLURM"]) / "jobs.json"
    jobs = json.loads(states.read_text("utf-8")) if states.exists() else {}
    number = str(100 + len(jobs))
    print(number if job.parsable else f"Submitted batch job {number}", flush=True)
    waits_for = (job.dependency or "").removeprefix("afterok:")
    if waits_for and (not jobs[waits_for] or any(jobs[waits_for])):  # SLURM cancels it, or lets it wait for ever
        assert job.kill_on_invalid_dep == "yes"
        jobs[number] = []
    else:
        jobs[number] = run(job, Path(script), number)
    states.write_text(json.dumps(jobs), "utf-8")
    return 0


def run(job: argparse.Namespace, script: Path, number: str) -> list[int]:
    """Run all tasks of a job; their exit codes."""
    indices = numbers(job.array) if job.array else [None]
    codes = []
    with tempfile.TemporaryDirectory() as spool:
        copy = shutil.copy(script, Path(spool) / "slurm_script")
        for index in indices:
            variables = {"SLURM_JOB_ID": number, "SLURM_CPUS_PER_TASK": job.cpus_per_task or "1"}
            if gpus := os.environ.get(GPUS, job.gpus_per_node):
                variables["SLURM_GPUS_ON_NODE"] = gpus
            if index is not None:
                variables |= {
                    "SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(index),
                    "SLURM_ARRAY_TASK_COUNT": str(len(indices)),
                }  # fmt: skip
            name = job.output.replace("%A", number).replace("%a", str(index)).replace("%j", number)
            with Path(name).open("wb") as output:
                both = {"stdout": output, "stderr": subprocess.STDOUT}
                done = subprocess.run(["bash", copy], env={**os.environ, **variables}, check=False, **both)
            codes.append(done.returncode)
    return codes


def numbers(text: str) -> list[int]:
    """The indices of "1-8", "1-8%4" (at most 4 at once) or "3,7"."""
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
