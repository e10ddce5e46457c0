"""SPICE (Anderson 2016) by pycocoevalcap's jar, without its wrapper, which downloads files into its own package."""

from __future__ import annotations

import importlib.util
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lmms_eval_ad2.core.errors import install_hint
from lmms_eval_ad2.scoring.metrics.caption import java

_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_HEAP = "-Xmx8G"
# SPICE's serialiser reads private fields of the JDK, which Java 16 and later allow for opened packages only.
_OPENS = ("java.lang", "java.util", "java.math", "java.net", "java.text", "java.util.concurrent")


def scores(
    references: Sequence[Sequence[str]], candidates: Sequence[str], timeout_s: float
) -> tuple[float, Sequence[float]]:
    """SPICE F-score of the set (mean) and of each pair, 0..1, from untokenized text; raises java.JavaError."""
    java.find()
    if missing := missing_models():
        raise java.JavaError("spice_models_missing", _remedy(missing))
    from pycocoevalcap.spice import spice

    folder = java.package_file(spice, "lib").parent
    rows = [
        {"image_id": i, "test": text, "refs": list(refs)}
        for i, (refs, text) in enumerate(zip(references, candidates, strict=True))
    ]
    by_number = _run(folder, spice.SPICE_JAR, rows, timeout_s)
    items = [_f_score(by_number.get(i)) for i in range(len(rows))]
    missing_scores = sum(not math.isfinite(item) for item in items)
    if missing_scores:
        raise java.JavaError("spice_failed", f"SPICE gave no number for {missing_scores} of {len(items)} pairs")
    return sum(items) / len(items), items


def faults() -> list[str]:
    """Everything that keeps SPICE from running, with the remedy: pycocoevalcap, Java, jars; empty if it can run."""
    if importlib.util.find_spec("pycocoevalcap") is None:
        return [f"pycocoevalcap is not installed: {install_hint('pycocoevalcap')}"]
    found = []
    try:
        java.find()
    except java.JavaError as exc:
        found.append(exc.detail)
    if missing := missing_models():
        found.append(_remedy(missing))
    return found


def missing_models() -> list[Path]:
    """The paths at which SPICE looks for jars of Stanford CoreNLP and finds none."""
    from pycocoevalcap.spice import spice

    paths = [java.package_file(spice, "lib") / name for name in _MODELS]
    return [path for path in paths if not path.is_file()]


def _remedy(missing: Sequence[Path]) -> str:
    folder = missing[0].parent
    text = (
        f"SPICE needs Stanford CoreNLP 3.6.0 (stanford-corenlp-full-2015-12-09.zip, about 500 MB): "
        f"put {' and '.join(path.name for path in missing)} into {folder}"
    )
    if len(missing) < len(_MODELS):  # pycocoevalcap's program fetches both or, if the first is there, nothing
        return text
    return f"{text}, or let pycocoevalcap fetch them: cd {folder.parent} && python get_stanford_models.py"


def _run(package: Path, jar: str, rows: list[dict[str, object]], timeout_s: float) -> dict[int, object]:
    """Number of a pair -> its F-score as SPICE wrote it."""
    with tempfile.TemporaryDirectory(prefix="ad2-spice-") as folder:
        source, target = Path(folder, "in.json"), Path(folder, "out.json")
        source.write_text(json.dumps(rows), encoding="utf-8")
        args = [_HEAP, *_opens(), "-jar", jar, str(source), "-out", str(target), "-subset", "-silent"]
        java.run(args, what="SPICE", cwd=package, timeout_s=timeout_s)
        try:
            found = json.loads(target.read_text(encoding="utf-8"))
            return {int(row["image_id"]): row["scores"]["All"]["f"] for row in found}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise java.JavaError("spice_failed", f"SPICE's result file cannot be read: {exc!r}") from exc


def _opens() -> list[str]:
    if java.version() < 9:
        return []
    return [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS]


def _f_score(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
