"""Names of public classes: each is unique, has no filler suffix, and those of one word are terms in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from support.running import REPO

PACKAGES = (REPO / "lmms_eval_ad2", REPO / "closedloop_plugin")
FILLER = ("Data", "Info", "Object", "Manager", "Helper")
TERMS = {"KeyObject"}  # DriveLM's key objects
ROW = re.compile(r"^\| `([A-Z]\w*)` \|", re.MULTILINE)


def public_classes(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Name of each public class at top level -> files that define it."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(file)
    return found


def one_word(name: str) -> bool:
    return sum(letter.isupper() for letter in name) == 1


def has_filler(name: str) -> bool:
    return name.endswith(FILLER)


def classes() -> dict[str, list[Path]]:
    return public_classes(file for package in PACKAGES for file in sorted(package.rglob("*.py")))


def test_public_class_names_are_unique() -> None:
    twice = {name: [str(f.relative_to(REPO)) for f in files] for name, files in classes().items() if len(files) > 1}
    assert not twice


def test_names_have_no_filler_suffix() -> None:
    assert {name for name in classes() if has_filler(name)} == TERMS


def test_names_of_one_word_are_listed_terms() -> None:
    listed = ROW.findall((REPO / "CONTRIBUTING.md").read_text("utf-8"))
    assert listed == sorted(set(listed))
    used = {name for name in classes() if one_word(name)}
    assert used - set(listed) == set(), "choose a name that says more, or add the term to CONTRIBUTING.md"
    assert set(listed) - used == set(), "remove these from CONTRIBUTING.md: no class has the name"


def test_violations_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Thing: ...\nclass _Private: ...\n")
    (tmp_path / "b.py").write_text("class Thing: ...\nclass TwoWords:\n    class Inner: ...\n")
    found = public_classes(sorted(tmp_path.glob("*.py")))
    assert {name: len(files) for name, files in found.items()} == {"Thing": 2, "TwoWords": 1}
    assert has_filler("RunInfo") and not has_filler("InfoPage")
    assert one_word("Thing") and not one_word("TwoWords")
