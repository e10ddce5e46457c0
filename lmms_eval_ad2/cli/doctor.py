"""`ad2 doctor`: check the requirements of a run; each line has the finding and, for a fault, the remedy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.import_probe import Finding, ImportProbe, ImportReport, imports, try_import, version_of
from lmms_eval_ad2.core.options import add_command, option

SHIM_NOTE = (
    " (a CUDA build with a CPU torch, imports only through scripts/torchvision_shim.py, for development: models that "
    "use its operators or image reader fail; install torchvision from torch's index)"
)


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """`ad2 doctor`."""

    model: str | None = option("also check what this model of lmms-eval needs", default=None, metavar="NAME")
    model_args: str = option("its --model_args: api_key, base_url, ...", default="", metavar="KEY=VALUE,...")


def register(subparsers: Any) -> None:
    add_command(subparsers, "doctor", run, DoctorOptions, help="check this installation")


def run(options: DoctorOptions) -> int:
    from lmms_eval_ad2.core import plugins

    probe = ImportProbe()
    torch, torchvision = imports("torch"), imports("torchvision")
    report = probe.report()
    findings = [
        _lmms_eval(),
        _evaluation(report),
        (*torch[:2], report.torch) if torch[1] and report.torch else torch,
        (*torchvision[:2], torchvision[2] + SHIM_NOTE) if torchvision[1] and report.shim else torchvision,
        _cv2(),
        *(line for findings_of in plugins.loaded(plugins.DOCTOR) for line in findings_of()),
        *(_of_model(options) if options.model else _models()),
        _java(),
        _spice(),
        _home(),
        _judge(),
    ]
    for name, good, text in findings:
        print(f"{'ok  ' if good else 'FAIL'}  {name:<13} {text}")
    return 0 if all(good for _, good, _ in findings) else 1


def _lmms_eval() -> Finding:
    found = version_of("lmms_eval")
    if found is None:
        return "lmms-eval", False, "not installed: pip install lmms-eval==0.7.3"
    tested = "0.7.3"
    note = (
        ""
        if found == tested
        else f" (tested with {tested}; the wrappers depend on it: pip install lmms-eval=={tested})"
    )
    return "lmms-eval", found == tested, found + note


def _evaluation(report: ImportReport) -> Finding:
    """Whether all that lmms-eval imports in a run can be imported."""
    return "evaluation", not report.fault, report.problem() or "all that lmms-eval imports in a run is there"


def _cv2() -> Finding:
    """Several wheels install the same cv2 folder: the last one wins, and the GUI build needs libGL."""
    found = [n for n in ("opencv-python", "opencv-python-headless", "opencv-contrib-python") if version_of(n)]
    if len(found) > 1:
        fix = f"pip uninstall -y {' '.join(found)} && pip install 'opencv-python-headless>=4.8,<5'"
        return "cv2", False, f"{' and '.join(found)} overwrite each other: {fix}"
    return "cv2", True, found[0] if found else "not installed (the open-loop tasks do not need it)"


def _models() -> list[Finding]:
    """The libraries that many models need and lmms-eval does not install."""
    from lmms_eval_ad2.core.errors import install_hint
    from lmms_eval_ad2.harness.model_requirements import importable

    missing = "not installed; for --model qwen2_5_vl and others (ad2 doctor --model NAME): "
    return [
        (name, True, (version_of(name) or "found") if importable(name) else missing + install_hint(name))
        for name in ("decord", "qwen_vl_utils")
    ]


def _of_model(options: DoctorOptions) -> list[Finding]:
    """A model's wrapper, the libraries that it needs, and its API key."""
    from lmms_eval_ad2.core.errors import Ad2Error, install_hint
    from lmms_eval_ad2.harness import model_requirements
    from lmms_eval_ad2.storage.local_weights import pairs

    arguments = pairs(options.model_args)
    try:
        wrapper = model_requirements.find_wrapper(str(options.model))
    except Ad2Error as exc:
        return [("model", False, str(exc))]
    needed = model_requirements.needed_by(wrapper, arguments)
    missing = [name for name in needed if not model_requirements.importable(name)]
    found = [("model", True, f"{wrapper.name} needs {', '.join(needed)}")]
    found += [(name, False, f"not installed: {install_hint(name)}") for name in missing]
    if not missing:  # the libraries may be there and not work
        good, text = try_import(wrapper.class_path.rpartition(".")[0])
        found.append(("wrapper", good, wrapper.class_path if good else f"{wrapper.class_path}: {text}"))
    if variables := model_requirements.key_variables(wrapper.model_id, arguments):
        fault = model_requirements.key_fault(wrapper, arguments)
        found.append(("API key", fault is None, fault or f"{' or '.join(variables)} is set"))
    return found


def _java() -> Finding:
    from lmms_eval_ad2.scoring.metrics.caption import java

    try:
        return "java", True, f"{java.find()}, version {java.version()} (BLEU, METEOR, ROUGE-L, CIDEr use it)"
    except java.JavaError as exc:
        return "java", True, f"n-gram metrics of pycocoevalcap will be 'not scored': {exc.detail}"


def _spice() -> Finding:
    """SPICE is a column of one table: what it lacks is no fault of the installation."""
    from lmms_eval_ad2.scoring.metrics.caption import spice

    faults = spice.faults()
    return "SPICE", True, f"cannot run. {' '.join(faults)}" if faults else "can run: Java and both jars found"


def _home() -> Finding:
    from lmms_eval_ad2.data.home import home

    path = home()
    probe = next(p for p in (path, *path.parents) if p.exists())
    good = os.access(probe, os.W_OK)
    return "data home", good, f"{path}" + ("" if good else " is not writable: set AD2_HOME")


def _judge() -> Finding:
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.judge import make_judge

    try:
        return "judge", True, make_judge(None).label + " (AD2_JUDGE, or --judge of ad2 eval)"
    except Ad2Error as exc:
        return "judge", False, str(exc)
