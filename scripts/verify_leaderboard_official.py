"""Runs a program of Bench2Drive, unchanged, under a newer Python than its 3.7.

python verify_leaderboard_official.py PROGRAM ARGUMENT...                    any program
python verify_leaderboard_official.py PROGRAM --only-abilities A,B ARGUMENT...    ability_benchmark.py, with these only

Restored: `Element.getchildren`, and lists from `Element.items`, both gone from or different in Python 3.9's pure
implementation. ability_benchmark.py divides by zero if an ability has no route, so it can be limited to some.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from argparse import Namespace
from pathlib import Path


def restore_element_tree() -> None:
    """The C implementation cannot be changed, so that of Python is used."""
    sys.modules["_elementtree"] = None  # type: ignore[assignment]
    from xml.etree import ElementTree

    ElementTree.Element.getchildren = lambda self: list(self)  # type: ignore[attr-defined]
    ElementTree.Element.items = lambda self: list(self.attrib.items())  # type: ignore[method-assign]


def rate_abilities(program: Path, abilities: list[str], routes: str, results: str) -> None:
    """ability_benchmark.py's main with fewer abilities: their lists of scenario types are its own."""
    spec = importlib.util.spec_from_file_location("ability_benchmark", program)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.Ability = {name: types for name, types in tool.Ability.items() if name in abilities}
    tool.main(Namespace(file=routes, result_file=results))


def main() -> None:
    program, *arguments = sys.argv[1:]
    restore_element_tree()
    sys.path.insert(0, str(Path(program).parent))
    if arguments[:1] == ["--only-abilities"]:
        rate_abilities(Path(program), arguments[1].split(","), *arguments[2:])
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
