"""Share of scenarios in which the target fails and the expert survives: reflective threats against two baselines.

    python benchmarks/threat_failures.py --target late [--suite embedded220] [--every 4] [--rounds 1] [--attempts 1]

    rules      threats from the target's own drive
    uniform    threats drawn uniformly from the same vocabulary and ranges, with the same check
    standard   the routes' standard scenarios, which the target drives before its interview

With one round and one attempt (default) each of the three has one scenario per route; later ones in the folder of an
earlier start do not count. With more, a fuser replaces a
scenario that is refused or that the expert fails (attempts), and one that the target survives (rounds).

A failure counts if the expert survives the scenario (the check) and the threat makes the target fail: an actor of it is
involved, or the first infraction is none of the target's on the standard route (scoring/failure_cause.py). In the
standard scenarios every failure counts. Per fuser these shares:

    of the routes, after N rounds    those on which one of at most N scenarios made the target fail; a route without a
                                     scenario counts as one on which no failure was found
    of the scenarios driven          all that passed the check
    of the scenarios proposed        all that the fuser made, fair or not
    causes                           of the last scenario driven on each route: by the threat, by both, by the standard
                                     scenario, by the target itself, and those with the threat first

A fuser proposes no further scenario for a route on which it has found a failure. Ratios of rules to each baseline have
a 95 % interval of a jackknife over routes (of the logarithm). A second start resumes. The results are counts and
ratios, no times. With one round and attempt they go to docs/results/threat_failures.json, which holds a target once,
and from there to the table of docs/threats.md.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource
from closedloop_plugin.threats.folder import ThreatFolder
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, ClusterJackknife, ConfidenceInterval
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.identity import code_label

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from marked_blocks import insert  # noqa: E402

FIGURES = ROOT / "docs" / "results" / "threat_failures.json"
PAGE = ROOT / "docs" / "threats.md"
SUITE = "embedded220"
FUSERS = ("rules", "uniform")


@dataclass(frozen=True)
class RouteFailures:
    """One route: the round in which the threat made the target fail, numbers of the scenarios that it drove, and that
    were proposed; of the last one that it drove, the cause of its failure, and whether the threat was first."""

    round: int | None
    driven: int
    proposed: int
    by: str = ""
    first: bool = False

    @property
    def failures(self) -> int:
        """A route has no further scenario after the first failure."""
        return int(self.round is not None)

    def within(self, rounds: int) -> bool:
        return self.round is not None and self.round <= rounds


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", default="late", help="value of --agent")
    p.add_argument("--name", help="of the target in folder and text (default: the target)")
    p.add_argument("--options", default="", help='of the drives, one string: "--size 160x90 --config decision_hz=2"')
    p.add_argument("--suite", default=SUITE)
    p.add_argument("--every", type=int, default=4, metavar="K", help="every K-th route of the suite (default 4)")
    p.add_argument("--start", type=int, default=0, metavar="I", help="from the I-th route on (default 0)")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--attempts", type=int, default=1, help="per route and round")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, default=Path("runs/threat_failures"))
    args = p.parse_args()
    routes = [route.id for route in suite(args.suite, "embedded").routes][args.start :: args.every]
    common = ["--suite", args.suite, "--routes-ids", ",".join(routes), "--agent", args.target, "--seed", str(args.seed)]
    common += ["--workers", str(args.workers), *shlex.split(args.options)]
    name = args.name or args.target
    out = args.out / name
    found = {}
    for fuser in FUSERS:
        folder = out / f"{fuser}{args.rounds}"
        budget = ["--config", f"reflect={args.rounds}", "--config", f"attempts={args.attempts}"]
        _ad2("threats", "generate", *common, "--fuser", fuser, *budget, "--out", str(folder))
        found[fuser] = threat_failures(folder, routes, args.rounds, args.attempts)
    found["standard"] = standard_failures(out / f"{FUSERS[0]}{args.rounds}" / "target" / "standard", routes)
    print(report(name, routes, found, args.rounds))
    if args.rounds == args.attempts == 1 and args.suite == SUITE:
        keep(name, found, json.loads((out / f"{FUSERS[0]}1" / "suite.json").read_text("utf-8"))["asked"])
        insert(PAGE, {"failures": table(read())})
    return 0


def keep(target: str, found: Mapping[str, Mapping[str, RouteFailures]], asked: Mapping[str, Any]) -> None:
    """Replace the target's figures in FIGURES. `asked`: of the suite, with version and commit."""
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.is_file() else {}
    rows = {name: {route: astuple(row) for route, row in one.items()} for name, one in found.items()}
    label = code_label(asked["version"], asked["commit"])
    figures[target] = {"version": label, "date": date.today().isoformat(), "found": rows}
    with atomic_write(FIGURES) as file:  # a line per fuser
        lines = [f'"{key}": {json.dumps(value)}' for key, value in figures.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> dict[str, Any]:
    """FIGURES, with the failures as RouteFailures."""
    figures: dict[str, Any] = json.loads(FIGURES.read_text("utf-8"))
    for one in figures.values():
        found = one["found"].items()
        one["found"] = {name: {k: RouteFailures(*row) for k, row in rows.items()} for name, rows in found}
    return figures


def table(figures: Mapping[str, Any]) -> str:
    """Markdown table of all targets: shares of the routes, and causes of the last scenario of rules on each."""
    head = ["target", "routes", "rules", "uniform", "standard", "rules / uniform", "rules / standard"]
    head += CAUSE_TITLES.values()
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for target, one in figures.items():
        found = one["found"]
        rows = {name: np.array([_after(1)(row) for row in kept.values()]) for name, kept in found.items()}
        cells = [f"`{target}`", str(len(rows["rules"])), *(_share(rows[name]) for name in (*FUSERS, "standard"))]
        cells += [_ratio(rows["rules"], rows[name]) for name in ("uniform", "standard")]
        by = [[(float(row.by == cause), 1.0) for row in found["rules"].values()] for cause in CAUSE_TITLES]
        lines.append([*cells, *(_share(np.array(column)) for column in by)])
    measured = (f"`{target}` {one['version']}, {one['date']}" for target, one in figures.items())
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n({'; '.join(measured)})"


def _ad2(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "lmms_eval_ad2.cli.main", *words], check=False)
    if done.returncode not in (0, 1):  # 1: routes without a scenario, which count below
        raise SystemExit(done.returncode)


def threat_failures(folder: Path, routes: Sequence[str], rounds: int, tries: int) -> dict[str, RouteFailures]:
    """Failures by route of a generated suite; a route whose scenario could not be made has none."""
    store, found = ThreatFolder(folder), {}
    for route in routes:
        transcript = store.transcript(route)
        every = transcript.attempts if transcript else []
        attempts = [a for a in every if a.round <= rounds and a.number < tries]
        failed = next((a for a in attempts if a.outcome is not None and a.outcome.by_threat), None)
        driven = [a.outcome for a in attempts if a.outcome is not None]
        cause = driven[-1].cause if driven else None
        found[route] = RouteFailures(
            failed.round if failed else None,
            len(driven),
            len(attempts),
            cause.by.value if cause else "",
            cause is not None and cause.first.source is CauseSource.THREAT,
        )
    return found


def standard_failures(folder: Path, routes: Sequence[str]) -> dict[str, RouteFailures]:
    """By route; one whose standard scenario could not be driven has none."""
    records = {record.route_id: record for record in read_records(folder)}
    driven = {route: RouteFailures(None if record.unharmed else 1, 1, 1) for route, record in records.items()}
    return {route: driven.get(route, RouteFailures(None, 0, 0)) for route in routes}


def shares(rounds: int) -> dict[str, Callable[[RouteFailures], tuple[float, float]]]:
    """(failures, of how many) of a route, by name of the share."""
    by_round = {f"routes, after {n} round{'s' * (n > 1)}": _after(n) for n in range(1, rounds + 1)}
    return {
        **by_round,
        "scenarios driven": lambda row: (row.failures, row.driven),
        "scenarios proposed": lambda row: (row.failures, row.proposed),
    }


def _after(rounds: int) -> Callable[[RouteFailures], tuple[float, float]]:
    return lambda row: (float(row.within(rounds)), 1.0)


def report(target: str, routes: Sequence[str], found: Mapping[str, Mapping[str, RouteFailures]], rounds: int) -> str:
    rows = {
        (name, share): np.array([counts(one[route]) for route in routes], float)
        for name, one in found.items()
        for share, counts in shares(rounds).items()
    }
    lines = [f"target {target}, {len(routes)} routes; the target fails in these shares, with 95 % intervals"]
    for share in shares(rounds):
        texts = [f"{name} {_share(rows[name, share])}" for name in found]
        texts += [
            f"rules / {name} {_ratio(rows['rules', share], rows[name, share])}" for name in found if name != "rules"
        ]
        lines.append(f"of the {share}: {'; '.join(texts)}")
    lines += [f"causes, {name}: {_causes(list(one.values()))}" for name, one in found.items() if name in FUSERS]
    without = {name: sum(one[route].driven == 0 for route in routes) for name, one in found.items()}
    lines.append(f"routes without a scenario: {', '.join(f'{name} {n}' for name, n in without.items())}")
    return "\n".join(lines)


def _causes(routes: Sequence[RouteFailures]) -> str:
    """Shares of all routes by cause, and of those on which the threat is involved, or first."""
    hits = {title: [row.by == source for row in routes] for source, title in CAUSE_TITLES.items()}
    hits["the threat involved"] = [row.by in (CauseSource.THREAT, CauseSource.BOTH) for row in routes]
    hits["the threat first"] = [row.first for row in routes]
    return "; ".join(f"{title} {_share(np.array([(hit, 1.0) for hit in column]))}" for title, column in hits.items())


def _share(rows: np.ndarray) -> str:
    """Share of sums, rows (routes, 2) of successes and trials, with its interval over routes."""
    kept = rows[rows[:, 1] > 0]
    if not len(kept):
        return "–"
    folded = ClusterJackknife.of_ratios(kept[:, :1], kept[:, 1:])
    share = kept[:, 0].sum() / kept[:, 1].sum()
    interval = folded.interval(FRACTION) if folded else None
    return f"{100 * share:.1f} %{_bounds(interval, 100.0)}"


def _bounds(interval: ConfidenceInterval | None, scale: float) -> str:
    return f" [{scale * interval.low:.1f}, {scale * interval.high:.1f}]" if interval else ""


def _ratio(a: np.ndarray, b: np.ndarray) -> str:
    """Ratio of two shares over the same routes; jackknife of its logarithm over routes, normal quantile."""
    totals = np.concatenate([a.sum(0), b.sum(0)])

    def log_ratio(sums: np.ndarray) -> float:
        return math.log(sums[0] / sums[1]) - math.log(sums[2] / sums[3])

    if min(totals[0], totals[2]) < 2:
        return "too few failures"
    without = np.array([log_ratio(totals - np.concatenate([x, y])) for x, y in zip(a, b, strict=True)])
    n = len(without)
    spread = 1.96 * math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    middle = log_ratio(totals)
    return f"{math.exp(middle):.2f} [{math.exp(middle - spread):.2f}, {math.exp(middle + spread):.2f}]"


if __name__ == "__main__":
    raise SystemExit(main())
