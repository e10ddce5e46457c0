"""Results of a search as JSON values (report.json) and as text for the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource
from closedloop_plugin.threats.search.search import ThreatSearchConfig
from closedloop_plugin.threats.search.trial import SearchTrial
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.scoring.metrics.intervals import wilson

WORST = 10  # number of listed runs
_NAMES = {"collisions_layout": "collision with the layout", "collisions_pedestrian": "collision with a pedestrian",
          "collisions_vehicle": "collision with a vehicle"}  # fmt: skip


def findings(config: ThreatSearchConfig, trials: Sequence[SearchTrial]) -> dict[str, Any]:
    """The report as JSON values. `fair`: failures that the expert survived; `unfair`: runs that it did not."""
    known = [t for t in trials if t.rho is not None]
    failures = [t for t in known if t.failed]
    reasons: dict[str, int] = {}
    for trial in trials:
        if trial.rho is None:
            text = f"{trial.record.end}: {trial.record.reason}"[:200]
            reasons[text] = reasons.get(text, 0) + 1
    return {
        **config.identity,
        "budget": config.budget,
        "scenario": config.run.tasks[0].suite,
        "name": config.run.tasks[0].route_id,
        "agent": dict(config.run.worker_config.conditions.agent),
        "on_standard": any(t.record.world.get("standard") == "kept" for t in trials),
        "runs": len(trials),
        "scored": len(known),
        "not_scored": reasons,
        "failures": len(failures),
        "interval": _interval(len(failures), len(known)),
        "causes": {
            source.value: sum(t.cause is not None and t.cause.by is source for t in known) for source in CauseSource
        },
        "fair": sum(t.fair is True for t in failures),
        "unfair": [t.number for t in failures if t.fair is False],
        "not_checked": sum(t.fair is None for t in failures),
        "first_failure": failures[0].number if failures else None,
        "worst": [_row(t) for t in worst(known)],
        "parameters": {name: parts(name, domain, known) for name, domain in config.space.items()},
    }


def _interval(hits: int, runs: int) -> list[float] | None:
    """95 % Wilson interval of hits / runs; None without runs."""
    if not runs:
        return None
    found = wilson(hits / runs, runs)
    return [round(found.low, 4), round(found.high, 4)]


def worst(trials: Sequence[SearchTrial]) -> list[SearchTrial]:
    """The WORST runs with the smallest robustness, smallest first."""
    return sorted((t for t in trials if t.rho is not None), key=lambda t: (t.rho, t.number))[:WORST]


def parts(name: str, domain: ParameterDomain, trials: Sequence[SearchTrial]) -> list[dict[str, Any]]:
    """Failures and runs per third of a parameter's range, or per option."""
    found = []
    for label, contains in _bins(domain):
        inside = [t for t in trials if contains(t.values[name])]
        found.append({"part": label, "failures": sum(t.failed for t in inside), "runs": len(inside)})
    return found


def _bins(domain: ParameterDomain) -> list[tuple[str, Any]]:
    if domain.options:
        return [(str(option), lambda v, o=option: v == o) for option in domain.options]
    step = (domain.high - domain.low) / 3
    edges = [domain.low, domain.low + step, domain.low + 2 * step, domain.high]
    return [
        (f"{a:.3g} to {b:.3g}", lambda v, a=a, b=b, i=i: (a <= v or i == 0) and (v < b or i == 2))
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]


def _row(trial: SearchTrial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "rho": None if trial.rho is None else round(trial.rho, 4),
        "verdict": trial.verdict,
        "fair": trial.fair,
        "score": trial.record.score_composed,
        "values": trial.values,
        "infractions": trial.infractions,
        "cause": trial.cause.by.value if trial.cause else None,
        "end": trial.record.end,
    }


def text(found: Mapping[str, Any], folder: object) -> str:
    """The report as text."""
    lines = [_headline(found), *_causes(found), *_fairness(found), *_unscored(found)]
    if found["worst"]:
        lines += ["", "runs closest to failure:", _worst_table(found["worst"]).plain(indent=2)]
    if found["failures"]:
        lines += ["", "failures / runs by part of a parameter's range:"]
        lines.append(_parameters_table(found["parameters"]).plain(indent=2))
        lines += ["", f"to draw the worst run: ad2 drive show {folder}:{found['name']}:{found['worst'][0]['number']}"]
    return "\n".join(lines)


def _headline(found: Mapping[str, Any]) -> str:
    head = f"{found['scenario']}: failures found: {found['failures']} of {found['scored']} runs"
    if not found["interval"]:
        return head
    low, high = (100 * v for v in found["interval"])
    share = 100 * found["failures"] / found["scored"]
    scope = "" if found["sampler"] in ("random", "halton") else "; of the chosen runs, not of the whole range"
    return f"{head} ({share:.0f} %, 95 % interval {low:.0f} to {high:.0f} %{scope}; sampler {found['sampler']})"


def _causes(found: Mapping[str, Any]) -> list[str]:
    """Failures by cause, of a program on top of a standard scenario; one alone causes all of them."""
    if not found["failures"] or not found["on_standard"]:
        return []
    named = (f"{title} {found['causes'][source.value]}" for source, title in CAUSE_TITLES.items())
    return [f"failed {', '.join(named)}"]


def _fairness(found: Mapping[str, Any]) -> list[str]:
    if not found["failures"] or found["not_checked"] == found["failures"]:
        return []
    line = f"the expert survives {found['fair']} of these {found['failures']}"
    if found["unfair"]:
        line += f"; unfair, the expert fails too: runs {', '.join(map(str, found['unfair']))}"
    if found["not_checked"]:
        line += f"; {found['not_checked']} could not be checked"
    return [line]


def _unscored(found: Mapping[str, Any]) -> list[str]:
    return [f"not scored: {n} runs: {reason}" for reason, n in found["not_scored"].items()]


def _worst_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(rows[0]["values"])
    headers = ["run", "rho", "verdict", "score", *names, "what"]
    body = [
        [r["number"], f"{r['rho']:.3f}", r["verdict"] + (" (unfair)" if r["fair"] is False else ""),
         f"{r['score']:.1f}", *(_short(r["values"][n]) for n in names), _what(r)]
        for r in rows
    ]  # fmt: skip
    return Table(headers, body, f"rrlr{'r' * len(names)}l")


def _parameters_table(parameters: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """One row per parameter, one cell per part of its range: "8 to 12: 3/7" (failures / runs)."""
    body = [
        [name, *(f"{row['part']}: {row['failures']}/{row['runs']}" for row in rows)]
        for name, rows in parameters.items()
    ]
    columns = max(map(len, body), default=0)
    return Table([""] * columns, [row + [""] * (columns - len(row)) for row in body])


def _what(row: Mapping[str, Any]) -> str:
    named = [_NAMES.get(n, n.replace("_", " ")) for n in row["infractions"] if n != "min_speed_infractions"]
    text = ", ".join(named) or ("" if row["end"] == "completed" else str(row["end"]))
    return text + (f" ({CAUSE_TITLES[CauseSource(row['cause'])]})" if row["cause"] else "")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
