"""Translations of programs are remembered by text, and are those of Scenic."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.worlds.bridge.compiled_scene import scenic

PROGRAM = """
param speed = Range(1, 9)
class Box(Object):
    width: 2
    length: self.width * 2
ego = new Box at (0, 0), facing Range(-5, 5) deg
other = new Box at (Range(5, 9), 4), with width 3
require (distance from ego to other) < 8
"""


@pytest.fixture
def translator() -> Any:
    scenic()
    import scenic.syntax.translator as translator

    return translator


def sampled(scenic_module: Any, program: Path, seed: int) -> tuple[Any, ...]:
    """What a scene of the program consists of."""
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    scene, _ = scenic_module.scenarioFromFile(str(program), mode2D=True).generate(maxIterations=500)
    return (
        scene.params["speed"],
        [(o.position.x, o.position.y, o.heading, o.width, o.length, type(o).__name__) for o in scene.objects],
    )


@pytest.mark.integration
def test_a_remembered_translation_gives_the_same_scene(
    tmp_path: Path, translator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "boxes.scenic"
    program.write_text(PROGRAM)
    first = sampled(scenic(), program, seed=4)
    monkeypatch.setattr(translator, "parse_string", lambda *a, **k: pytest.fail("parsed again"))
    assert sampled(scenic(), program, seed=4) == first
    assert sampled(scenic(), program, seed=5) != first


@pytest.mark.integration
def test_a_changed_text_is_translated_again(tmp_path: Path) -> None:
    program = tmp_path / "boxes.scenic"
    program.write_text(PROGRAM)
    assert sampled(scenic(), program, seed=4)[1][1][3] == 3
    program.write_text(PROGRAM.replace("width 3", "width 1"))
    assert sampled(scenic(), program, seed=4)[1][1][3] == 1


@pytest.mark.integration
def test_the_translation_is_scenics(translator: Any) -> None:
    """Of the same text, by Scenic's own compileStream: code but for the lines, requirements and hash."""
    from scenic.syntax.translator import CompileOptions

    from closedloop_plugin.worlds.bridge.scenic_patches import translated

    original = translator.compileStream.__wrapped__
    namespace: dict[str, Any] = {}
    code, _ = original(io.BytesIO(PROGRAM.encode()), namespace, CompileOptions(mode2D=True), "a.scenic")
    ours = translated(PROGRAM, "a.scenic")
    assert (ours.code.co_code, ours.code.co_names, ours.digest) == (code.co_code, code.co_names, namespace["_astHash"])
    assert len(ours.requirements) == len(namespace["_scenario"]._requirementSyntax) == 1


@pytest.mark.integration
def test_errors_of_syntax_keep_their_place(tmp_path: Path) -> None:
    from scenic.core.errors import ScenicSyntaxError

    from closedloop_plugin.worlds.bridge.scenic_patches import translated

    with pytest.raises(ScenicSyntaxError) as caught:
        translated("ego = new Object\nego = = 3\n", str(tmp_path / "wrong.scenic"))
    assert caught.value.lineno == 2
