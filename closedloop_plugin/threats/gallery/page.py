"""`ad2 threats gallery`: one self-contained page about a folder of scenarios, and who failed in which.

Nothing is fetched from anywhere. What models wrote is untrusted: the template escapes all of it, invisible and
direction-turning characters are spelt out, and the page's policy (CSP) lets only its own style and script run, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path as File
from typing import Any

from closedloop_plugin.threats.gallery import read as gallery_read
from closedloop_plugin.threats.gallery import runs as gallery_runs
from closedloop_plugin.threats.gallery.cards import FATES, card, clip, visible, word
from closedloop_plugin.threats.gallery.read import Gallery, Scenario, State
from closedloop_plugin.threats.gallery.runs import Driven, Fate, label_of
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error, require
from lmms_eval_ad2.storage.files import atomic_write


def write(folder: File, out: File, runs: Sequence[File] = ()) -> Gallery:
    """Write the page of `folder` to `out`, whole or not at all; what it shows. `runs`: see gallery_runs.

    Raises MissingExtra without Jinja2, Ad2Error for a folder without scenarios, a foreign run, an unwritable place.
    """
    gallery = gallery_read.read(folder)
    text = page(gallery, gallery_runs.read(folder, runs))
    try:
        with atomic_write(out, errors="replace") as handle:
            handle.write(text)
    except OSError as exc:
        raise Ad2Error(f"cannot write the gallery {out}: {exc}") from exc
    return gallery


def page(gallery: Gallery, driven: Sequence[Driven] = ()) -> str:
    """The page as HTML text."""
    jinja2 = require("jinja2", "the gallery")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=visible
    )
    source = resources.files(__package__).joinpath("gallery.html").read_text("utf-8")
    cards = [card(s, gallery, driven) for s in gallery.scenarios]
    rendered: str = environment.from_string(source).render(
        style_hash=_hash(source, "style"), script_hash=_hash(source, "script"), version=__version__,
        name=gallery.name, facts=_facts(gallery.about), tiles=_tiles(gallery), cards=cards,
        runs=[_run(d, gallery) for d in driven], behaviours=_behaviours(gallery, driven), not_driven=_apart(gallery),
        filters={key: sorted({c[key] for c in cards if c[key]}) for key in ("behaviour", "adversary", "weakness")},
        states=[s for s in State if any(c["state"] == s for c in cards)],
    )  # fmt: skip
    return rendered


def _hash(source: str, element: str) -> str:
    """The policy's word for the one inline element of that name, which holds no template expression."""
    found = re.search(rf"<{element}>(.*?)</{element}>", source, re.S)
    assert found, element
    return "sha256-" + base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()


# -- the head ------------------------------------------------------------------------------------------------------


def _facts(about: Mapping[str, Any]) -> dict[str, str]:
    """What suite.json says of the making, in the order of the head; {} for a folder of one's own programs."""
    found = {
        "base suite": about.get("base"),
        "interviewed": label_of(about["agent"]) if about.get("agent") else None,
        "fuser": label_of(about["fuser"]) if about.get("fuser") else None,
        "seed": about.get("seed"),
        "profile": about.get("profile"),
        "world": str(about["world"]).rsplit(":", 1)[-1] if about.get("world") else None,
        "made with": f"lmms-eval-ad2 {about['version']}" if about.get("version") else None,
    }
    if about.get("finished") is False:
        found["state"] = "not finished: start the same ad2 threats generate again, it goes on from there"
    return {k: clip(str(v), 200) for k, v in found.items() if v not in (None, "")}


def _tiles(gallery: Gallery) -> list[tuple[str, str, str]]:
    """(figure, what, looks) of the head's counts."""
    states = Counter(s.state for s in gallery.scenarios)
    made = len(gallery.scenarios) - states[State.NOT_MADE]
    checked = states[State.PASSED] + states[State.FAILED]
    share = f" ({100 * states[State.PASSED] / checked:.1f} % of {checked} checked)" if checked else ""
    left_out = sum(bool(s.left_out) for s in gallery.scenarios if s.state is not State.NOT_MADE)
    refused = sum(a.spec is None for s in gallery.scenarios if s.transcript for a in s.transcript.attempts)
    tiles = [
        (str(made), f"scenarios made, of {len(gallery.scenarios)}", ""),
        (str(states[State.PASSED]), f"pass the check{share}", "good"),
        (str(left_out), "left out of the suite", "warn" if left_out else ""),
        (str(states[State.NOT_MADE]), "not made", "warn" if states[State.NOT_MADE] else ""),
        (str(refused), "attempts refused", ""),
    ]
    pending = states[State.UNCHECKED] + states[State.CHANGED]
    return [*tiles, (str(pending), "not checked, or changed since", "warn")] if pending else tiles


def _apart(gallery: Gallery) -> list[tuple[str, str, str]]:
    """(scenario, why it is not driven, kind) of all that the suite does not drive."""
    found = []
    for s in gallery.scenarios:
        if s.state is State.NOT_MADE:
            found.append((s.name, clip(s.reason, 400) or "no reason is kept", "not made"))
        elif s.left_out:
            found.append((s.name, clip(s.left_out, 400), "left out"))
    return found


def _run(driven: Driven, gallery: Gallery) -> dict[str, Any]:
    """A line of the head's table: counts by fate over the scenarios that the suite drives."""
    asked = _asked(gallery)
    outcomes = [driven.of(s.name) for s in asked]
    counts = Counter(o.fate for o in outcomes)
    scores = [o.score for o in outcomes if o.score is not None]
    edge, bars = 0.0, []
    for fate in Fate:
        wide = 100 * counts[fate] / max(len(asked), 1)
        bars.append((round(edge, 2), round(wide, 2), FATES[fate]))
        edge += wide
    return {
        "label": clip(driven.label, 80), "setting": clip(driven.setting, 200), "bars": bars,
        "counts": [(fate.value, counts[fate], FATES[fate]) for fate in Fate], "n": len(scores),
        "score": f"{sum(scores) / len(scores):.1f}" if scores else "–",
    }  # fmt: skip


def _asked(gallery: Gallery) -> list[Scenario]:
    return [s for s in gallery.scenarios if s.program and not s.left_out]


def _behaviours(gallery: Gallery, driven: Sequence[Driven]) -> list[dict[str, Any]]:
    """How often each driver failed, by behaviour; `heat` is the share in tenths, None where nothing was scored."""
    groups: dict[str, list[Scenario]] = {}
    for s in _asked(gallery):
        groups.setdefault(word(s.spec.behaviour.value) if s.spec else "of one's own", []).append(s)
    rows = []
    most = max((len(members) for members in groups.values()), default=1)
    for name, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        cells = []
        for d in driven:
            scored = [o for o in (d.of(s.name) for s in members) if o.scored]
            failed = sum(o.fate is Fate.FAILED for o in scored)
            cells.append((failed, len(scored), round(10 * failed / len(scored)) if scored else None))
        share = round(100 * len(members) / most, 1)
        rows.append({"name": name, "n": len(members), "share": share, "cells": cells})
    return rows
