"""Render the report of `ad2 mcq check` as text: faults first, then figures, then warnings."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.mcq.biases import ALPHA, ATTACKS, FEW
from lmms_eval_ad2.mcq.check import RATIO, comparison_text
from lmms_eval_ad2.report.table import Table

_ROWS = 5  # examples of each list; the JSON report has more
_PARTS = ("all", "polar", "others")
_WIDTH = 90  # characters of an option


def text(report: dict[str, Any]) -> str:
    """The whole report, without control characters: options and ids come from foreign files."""
    parts = [_head(report), _faults(report), _balance(report["balance"]), _length(report["length"]), _attacks(report)]
    parts += [_position(report["position"]), _marks(report), _models(report)]
    parts += [_warnings(report["warnings"])] if report["data"]["n"] else []
    return printable("\n\n".join(part for part in parts if part))


def _head(report: dict[str, Any]) -> str:
    data = report["data"]
    more = f", {data['not_multiple_choice']} records of other forms" if data["not_multiple_choice"] else ""
    return f"{data['name']} ({data['split']}): {data['n']} questions{more}"


def _faults(report: dict[str, Any]) -> str:
    data, twice, alike = report["data"], report["duplicates"]["questions"], report["duplicates"]["options"]
    faults = report["faults"]
    lines = [f"faults: {report['found'] or 'none'}"]
    if data["invalid"]:
        lines += [f"  invalid rows: {data['invalid']}", *(f"    {row}" for row in data["invalid_rows"][:_ROWS])]
    if twice:
        differ = {True: " (with different answers)", False: ""}
        shown = [", ".join(one["ids"]) + differ[one["answers_differ"]] for one in twice[:_ROWS]]
        lines += [f"  duplicate questions: {len(twice)}", *(f"    {text}" for text in shown)]
    if alike:
        found = (f"    {row['id']}: {' and '.join(row['letters'])}" for row in alike[:_ROWS])
        lines += [f"  equal wrong options: {len(alike)}", *found]
    for code, count in faults["by_code"].items():
        rows = [row for row in faults["rows"] if row["code"] == code][:_ROWS]
        lines.append(f"  wrong options, {code}: {count} ({faults['meaning'][code]})")
        lines += [f"    {row['id']} {row['letter']}: {row['text'][:_WIDTH]}" for row in rows]
    return "\n".join(lines)


def _balance(balance: dict[str, dict[str, int]]) -> str:
    names = (("task", "tasks"), ("source", "sources"), ("options", "options"), ("distractors", "categories"))
    lines = [
        f"{what}: " + ", ".join(f"{k} {n}" for k, n in balance[key].items()) for key, what in names if balance[key]
    ]
    return "\n".join(lines)


def _length(length: dict[str, Any]) -> str:
    rows = [("all", length["all"]), *length["by_task"].items()]
    if not length["all"]["n"]:
        return ""
    cells = [
        [name, one["n"], *(_decimals(one[key]) for key in ("right_mean", "wrong_mean", "ratio", "rank")),
         _percent(one["choose_longest"]), _percent(one["choose_shortest"])]
        for name, one in rows if one["n"]
    ]  # fmt: skip
    heads = ["length", "n", "right", "wrong", "ratio", "rank", "choose longest %", "choose shortest %"]
    return Table(heads, cells, "lrrrrrll").plain()


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _percent(guess: dict[str, Any] | None) -> str:
    if guess is None:
        return "-"
    return f"{100 * guess['accuracy']:.1f} [{100 * guess['ci'][0]:.1f}, {100 * guess['ci'][1]:.1f}]"


def _attacks(report: dict[str, Any]) -> str:
    if not report["data"]["n"]:
        return ""
    found, polar = report["attacks"]["by_attack"], report["attacks"]["polar"]
    rows = [[ATTACKS[name], *(_percent(row[part]) for part in _PARTS)] for name, row in found.items()]
    best = report["attacks"]["best"]
    rows.append(["best of these", *(_percent(found[best[p]][p]) if best[p] else "-" for p in _PARTS)])
    heads = ["answered without the image, by choosing", "all %", "yes-no %", "without yes-no %"]
    lines = [Table(heads, rows, "llll").plain()]
    if polar["n"]:
        lines.append(
            f"yes-or-no questions: {polar['n']}; the right option is the only one with its verdict in {polar['alone']}"
        )
    return "\n".join(lines)


def _position(position: dict[str, Any]) -> str:
    if not position["n"]:
        return ""
    counts = ", ".join(f"{letter} {count}" for letter, count in position["counts"].items())
    test = f"chi-square p {position['p_value']:.2g}" if position["p_value"] is not None else "too few for a test"
    most_frequent = 100 * position["commonest_letter_accuracy"]
    return f"right letters: {counts} ({test}; always the most frequent: {most_frequent:.1f} %)"


def _marks(report: dict[str, Any]) -> str:
    rated = report["correctness"]
    names = (("as built", report["stored_correctness"]), (f"by {rated['model']}" if rated else "", rated))
    lines = []
    for origin, one in names:
        if one and one["all"]["n"]:
            lines.append(f"correctness {origin}: {_spread(one['all'])}")
            lines += [f"  {task}: {_spread(part)}" for task, part in one["by_task"].items()]
    return "\n".join(lines)


def _spread(one: dict[str, Any]) -> str:
    if not one["n"]:
        return "no ratings"
    return f"mean {one['mean']:.2f} of {one['n']} (" + ", ".join(f"{k}: {n}" for k, n in one["counts"].items()) + ")"


def _models(report: dict[str, Any]) -> str:
    text_only, rated = report["text_only"], report["correctness"]
    lines = []
    if text_only:
        overall = comparison_text(text_only["all"]) if text_only["all"] else "no answer could be read"
        lines.append(
            f"without the image, {text_only['model']}, {text_only['answered']} of {text_only['asked']}: {overall}"
        )
        lines += [f"  {task}: {comparison_text(guess)}" for task, guess in text_only["by_task"].items() if guess]
    for name, one in (("without the image", text_only), ("evaluator", rated)):
        if one and one["reasons"]:
            lines.append(f"  {name}, left out: " + ", ".join(f"{k} {n}" for k, n in one["reasons"].items()))
        if one:
            lines.append(f"  {name}: " + ", ".join(f"{k} {n}" for k, n in one["usage"].items()))
    return "\n".join(lines)


def _warnings(found: list[str]) -> str:
    rule = (
        f"above chance: p < {ALPHA} and a 95 % interval above it, over scenes, or over questions where there "
        f"are fewer than {FEW} scenes; length ratio past {RATIO}"
    )
    if not found:
        return f"no bias past the thresholds ({rule})"
    return "\n".join([f"warnings ({rule}):", *(f"  {one}" for one in found)])
