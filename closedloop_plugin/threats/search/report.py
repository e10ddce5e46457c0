"""Results of a search: JSON values (report.json), text for the terminal, and a plot (search.svg)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource
from closedloop_plugin.threats.search.search import SearchTrial, ThreatSearchConfig
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.printed import visible
from lmms_eval_ad2.report.page import plots as figures
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.scoring.metrics.intervals import wilson

WORST = 10  # number of runs listed in the text
NAMES = {"collisions_layout": "collision with the layout", "collisions_pedestrian": "collision with a pedestrian",
         "collisions_vehicle": "collision with a vehicle"}  # fmt: skip


def findings(config: ThreatSearchConfig, trials: Sequence[SearchTrial]) -> dict[str, Any]:
    """The report as JSON values. `fair`: failures that the expert survived; `unfair`: runs that it did not; `trials`:
    every run."""
    known = [t for t in trials if t.rho is not None]
    failures = [t for t in known if t.failed]
    found = wilson(len(failures) / len(known), len(known)) if known else None
    unscored = Counter(f"{t.record.end}: {t.record.reason}"[:200] for t in trials if t.rho is None)
    causes = Counter(t.cause.by for t in known if t.cause is not None)
    return {
        **config.identity,
        "budget": config.budget,
        "scenario": config.run.tasks[0].suite,
        "name": config.run.tasks[0].route_id,
        "agent": dict(config.run.worker_config.conditions.agent),
        "on_standard": any(t.record.world.get("standard") == "kept" for t in trials),
        "runs": len(trials),
        "scored": len(known),
        "not_scored": dict(unscored),
        "failures": len(failures),
        "interval": [round(found.low, 4), round(found.high, 4)] if found else None,
        "causes": {source.value: causes[source] for source in CauseSource},
        "fair": sum(t.fair is True for t in failures),
        "unfair": [t.number for t in failures if t.fair is False],
        "not_checked": sum(t.fair is None for t in failures),
        "trials": [t.to_json() for t in trials],
    }


def text(found: Mapping[str, Any], folder: object) -> str:
    """The report as text."""
    lines = [_headline(found)]
    if found["failures"] and found["on_standard"]:  # a program alone causes all failures
        named = (f"{title} {found['causes'][source.value]}" for source, title in CAUSE_TITLES.items())
        lines.append(f"failed {', '.join(named)}")
    if found["failures"] > found["not_checked"]:
        line = f"the expert survives {found['fair']} of these {found['failures']}"
        if found["unfair"]:
            line += f"; unfair, the expert fails too: runs {', '.join(map(str, found['unfair']))}"
        lines.append(line + (f"; {found['not_checked']} could not be checked" if found["not_checked"] else ""))
    lines += [f"not scored: {n} runs: {reason}" for reason, n in found["not_scored"].items()]
    scored = (t for t in found["trials"] if t["rho"] is not None)
    worst = sorted(scored, key=lambda t: (t["rho"], t["number"]))[:WORST]
    if worst:
        lines += ["", "runs closest to failure:", _table(worst).plain(indent=2)]
    if found["failures"]:
        lines += ["", f"to draw the worst run: ad2 drive show {folder}:{found['name']}:{worst[0]['number']}"]
    return "\n".join(lines)


def _headline(found: Mapping[str, Any]) -> str:
    head = f"{found['scenario']}: failures found: {found['failures']} of {found['scored']} runs"
    if not found["interval"]:
        return head
    low, high = (100 * v for v in found["interval"])
    share = 100 * found["failures"] / found["scored"]
    scope = "" if found["sampler"] in ("random", "halton") else "; of the chosen runs, not of the whole range"
    return f"{head} ({share:.0f} %, 95 % interval {low:.0f} to {high:.0f} %{scope}; sampler {found['sampler']})"


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(rows[0]["values"])
    body = []
    for row in rows:
        harms = [NAMES.get(n, n.replace("_", " ")) for n in row["infractions"] if n != "min_speed_infractions"]
        what = ", ".join(harms) or ("" if row["end"] == "completed" else str(row["end"]))
        what += f" ({CAUSE_TITLES[CauseSource(row['cause'])]})" if row["cause"] else ""
        values = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in (row["values"][n] for n in names)]
        verdict = row["verdict"] + (" (unfair)" if row["fair"] is False else "")
        body.append([row["number"], f"{row['rho']:.3f}", verdict, f"{row['score']:.1f}", *values, what])
    return Table(["run", "rho", "verdict", "score", *names, "what"], body, f"rrlr{'r' * len(names)}l")


def svg(title: str, space: Mapping[str, ParameterDomain], trials: Sequence[SearchTrial]) -> str:
    """Plot of failures found over runs, and of the robustness over each parameter, as SVG.

    A filled red circle is a failure, a hollow one a failure where the expert fails too, a grey one a survived run.
    """
    with figures.settings():
        known = [t for t in trials if t.rho is not None]
        columns = min(1 + len(space), 3)
        rows = -(-(1 + len(space)) // columns)
        figure, _ = figures.figure_of(3 * rows + 0.5, 4 * columns)
        figure.clear()  # its one panel
        figure.suptitle(visible(title))
        axes = figure.subplots(rows, columns, squeeze=False).flat
        found = [sum(t.failed for t in known[:k]) for k in range(len(known) + 1)]
        axes[0].step([0, *(t.number + 1 for t in known)], found, where="post", color="tab:red")
        axes[0].set(xlabel="runs", ylabel="failures found")
        for panel, (name, domain) in zip(axes[1:], space.items(), strict=False):
            for trial in known:
                value = trial.values[name]
                x = domain.options.index(value) if domain.options else value
                colour = "tab:red" if trial.failed else "tab:gray"
                panel.plot(x, trial.rho, "o", color=colour, fillstyle="none" if trial.fair is False else "full")
            panel.axhline(0.0, color="gray", linestyle="--")  # below: failed
            panel.set(ylim=(-1.05, 1.05), xlabel=visible(name), ylabel="robustness")
            if domain.options:
                panel.set_xticks(range(len(domain.options)), [visible(str(option)) for option in domain.options])
        for panel in axes[1 + len(space) :]:
            panel.set_visible(False)
        return figures.svg(figure)
