"""Makes `import carla` in a subprocess import the fake. Python imports this file at start if it is on the path."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

TESTS = str(Path(__file__).resolve().parent.parent.parent)


class _Patched:
    """Loads the real module, then installs the fake's classes in it."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.real.exec_module(module)
        if TESTS not in sys.path:
            sys.path.append(TESTS)
        import fake_carla

        fake_carla.install()


class _Finder:
    """Removes itself at the first `import carla`."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != "carla":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Patched(spec.loader)  # type: ignore[assignment]
        return spec


sys.meta_path.insert(0, _Finder())
