"""Who may import whom (docs/architecture.md). Reads the source, so that lazy imports count too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from running import REPO

PACKAGE = REPO / "lmms_eval_ad2"

# room -> rooms of ours it may know. "cli" is the roof and may know all.
ALLOWED: dict[str, set[str]] = {
    "records": set(),
    "errors": set(),
    "files": set(),
    "drivelm_text": {"records", "errors"},
    "releases": {"records", "errors", "drivelm_text"},
    "library": {"records", "errors", "releases"},
    "prompts": {"records", "errors"},
    "parsing": {"records", "errors"},
    "metrics": {"records", "errors"},
    "llm": {"records", "errors"},
    "judge": {"llm", "parsing", "records", "errors", "files"},
    "scoring": {"judge", "parsing", "metrics", "records", "errors", "drivelm_text", "files"},
    "sample": {"library", "records", "errors"},
    "harness": {
        "scoring", "judge", "llm", "parsing", "metrics", "prompts", "library", "releases", "sample", "records",
        "errors",
    },
    "report": {"prompts", "metrics", "records", "errors", "files"},
}  # fmt: skip
# heavy library -> the one room (or file) that may import it
HEAVY = {
    "lmms_eval": ("harness", "cli/lmms.py"),
    "swift": ("harness/models/swift.py",),
    "sentence_transformers": ("judge/embedding.py",),
    "matplotlib": ("report/plots.py",),
    "pycocoevalcap": ("metrics/caption",),
    "jiwer": ("metrics/ocr.py",),
    "ijson": ("releases",),
    "torch": ("harness/models", "harness/ranks.py"),
    "datasets": ("harness/data.py",),
}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names that the file imports anywhere, and the modules it names in errors.require("...")."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require":
            names |= {str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)}
    return names


def ours(names: set[str]) -> set[str]:
    rooms = {n.split(".")[1] for n in names if n.startswith("lmms_eval_ad2.")}
    return {r for r in rooms if (PACKAGE / r).is_dir() or (PACKAGE / f"{r}.py").exists()}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_layers(path: Path) -> None:
    room = room_of(path)
    if room in ("cli", "__init__"):
        return
    assert room in ALLOWED, f"a new room '{room}': say in ALLOWED and docs/architecture.md whom it may know"
    foreign = ours(imported(path)) - ALLOWED[room] - {room}
    assert not foreign, (
        f"{path.relative_to(PACKAGE)} imports {sorted(foreign)}; {room} may know {sorted(ALLOWED[room])}"
    )


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_have_one_home(library: str) -> None:
    homes = HEAVY[library]
    importers = {
        str(p.relative_to(PACKAGE))
        for p in modules()
        if any(n == library or n.startswith(f"{library}.") for n in imported(p))
    }
    strangers = {i for i in importers if not i.startswith(homes)}
    assert not strangers, f"{library} is imported by {sorted(strangers)}; its home is {homes}"


def test_the_reader_of_imports_sees_lazy_ones(tmp_path: Path) -> None:
    """The check must be able to fail: a lazy import and a require() are both found."""
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from lmms_eval_ad2.harness import run\n    require('swift')\n")
    assert {"lmms_eval_ad2.harness", "swift"} <= imported(file)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_stay_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400, "split it: files of about 120 lines, rarely past 400"
