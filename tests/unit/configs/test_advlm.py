"""The four published models: configs, prompts and functions, and a drive with a stand-in for the model."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import shlex
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.bench2drive.advlm_serving import python_name, run_adapter, serving
from support.running import REPO

from closedloop_plugin.cli import serve
from closedloop_plugin.cli.drive import run
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.endpoint import endpoint_options
from closedloop_plugin.driver.agents.make import cameras_of
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.storage.identity import read_run

FOLDER = REPO / "configs/advlm"
NAMES = ("drivelm", "dolphins", "em_vlm4ad", "omnidrive")
# Replaces the model: saves the images and the question that it receives.
STAND_IN = """
def load():
    return {}
def answer(images, question, model):
    for image in images:
        image.save("%d_%s" % (image.index, image.name))
    with open("asked", "w") as file:
        file.write(question)
    return "Accelerate gently and go straight, because the road is free."
"""


def config(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"advlm_example_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def parse(arguments: list[str], command: ModuleType = run) -> argparse.Namespace:
    """Parse a command line, from the sub-command on, with the command's own parser."""
    parser = argparse.ArgumentParser()
    parts = parser.add_subparsers(required=True)
    command.register(parts)
    return parser.parse_args(arguments)


def test_the_papers_four_models_have_configs_with_different_ports() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(NAMES)
    assert len({config(name)["port"] for name in NAMES}) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_config_matches_its_documented_commands(name: str) -> None:
    settings = config(name)
    assert (settings["name"], settings["entry"]) == (name, f"{name}.py:answer")
    assert settings["about"]["agent"] == f"endpoint:{name}@http://127.0.0.1:{settings['port']}/v1"
    ad2, group, *arguments = shlex.split(settings["about"]["drive"])
    args = parse(arguments)
    options = endpoint_options(args.agent.partition(":")[2])
    assert (ad2, group) == ("ad2", "drive") and args.agent.startswith(settings["about"]["agent"])
    assert options["timeout"] > settings["timeout"]  # else the client disconnects before the server times out
    cameras = [camera.name for camera in cameras_of(args.camera, profile(args.profile))]
    assert cameras == settings["cameras"].split(",") and len(cameras) <= settings["max_images"]
    texts = PromptTexts.load(REPO / args.prompts)
    assert texts.fill("action") == settings["question"]
    frames = texts.numbers.get("frames", 1)
    assert frames == settings.get("frames", 1) == (6 if name == "dolphins" else 1)  # as in the public code
    assert frames * len(cameras) <= settings["max_images"]
    served = parse(shlex.split(settings["about"]["serve"])[1:], serve)
    assert (served.model, served.camera, served.prompts) == (args.agent, args.camera, args.prompts)


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_a_model_function_matches_the_contract_and_imports_lazily(name: str, tmp_path: Path) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text("utf-8"), feature_version=(3, 7))
    at_top = {a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    assert at_top <= {"argparse", "math", "os", "tempfile", "uuid"}
    # That Python lacks the packages: load() fails, so the file, its names and its arguments were accepted.
    code, _, err = run_adapter(tmp_path, "--config", FOLDER / f"{name}.json", "--check")
    assert code == 1 and any("load() failed: ModuleNotFoundError: No module named" in line for line in err)


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name}-{python_name()}")
def test_the_documented_command_drives_with_a_stand_in_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(name)
    shutil.copy(FOLDER / f"{name}.json", tmp_path)
    (tmp_path / f"{name}.py").write_text(STAND_IN, "utf-8")
    monkeypatch.chdir(REPO)  # the command's prompt path is relative to it
    with serving(tmp_path, "", "--config", f"{name}.json") as server:
        command = (
            settings["about"]["drive"].replace(str(settings["port"]), str(server.port)).replace("embedded220", "demo")
        )
        overrides = [
            "--world",
            "closedloop_plugin.worlds.testing.fake_world:FakeWorld",
            "--limit",
            "1",
            "--size",
            "64x36",
        ]
        arguments = [*shlex.split(command)[2:], *overrides, "--config", "decision_hz=1", "--out", str(tmp_path / "run")]
        args = parse(arguments)
        assert args.func(args) == 0
        health = server.health()
    (record,) = read_records(tmp_path / "run")
    assert health["answered"] == record.counts["decisions"] > 6 and health["failed"] == health["refused"] == 0
    assert record.score_route > 50  # the reply was parsed and applied
    assert read_run(tmp_path / "run")["identity"]["agent"]["name"] == f"endpoint:{name}"
    assert (tmp_path / "asked").read_text() == settings["question"]
    asked = settings["cameras"].split(",") * settings.get("frames", 1)  # of the last question, the earliest first
    assert sorted(f.name for f in tmp_path.glob("[0-9]_*")) == [f"{i}_{camera}" for i, camera in enumerate(asked)]


def test_omnidrive_cameras_match_the_profile() -> None:
    mounts = module("omnidrive").MOUNTS
    cameras = cameras_of("surround", profile("bench2advlm"))
    assert mounts == {c.name: (c.forward, c.right, c.yaw, c.fov) for c in cameras}
    assert all((c.width, c.height, c.up) == (1600, 900, 1.6) for c in cameras)


@pytest.mark.parametrize(
    ("camera", "ahead_of_axle_and_left", "pixel"),
    [
        # 10 m before the lens, on its axis; then 1 m to the left of that, focal 800 / tan 35 deg = 1142.5
        ("front", (0.8 + 1.4 + 10, 0.0), (800.0, 450.0)),
        ("front", (0.8 + 1.4 + 10, 1.0), (800.0 - 114.25, 450.0)),
        ("back", (-2.0 + 1.4 - 10, 0.0), (800.0, 450.0)),
        ("back", (-2.0 + 1.4 - 10, 1.0), (800.0 + 56.02, 450.0)),  # left of the car is right in the rear image
        ("front_right", (0.27 + 1.4 + 10 * np.cos(np.radians(55)), -0.55 - 10 * np.sin(np.radians(55))), (800, 450)),
        ("back_left", (-0.32 + 1.4 + 10 * np.cos(np.radians(110)), 0.55 + 10 * np.sin(np.radians(110))), (800, 450)),
    ],
)  # fmt: skip
def test_omnidrive_projection_matches_hand_computed_pixels(
    camera: str, ahead_of_axle_and_left: Any, pixel: Any
) -> None:
    inner, outer = module("omnidrive").geometry(camera)
    x, y, depth, _ = inner @ outer @ [*ahead_of_axle_and_left, 1.6, 1.0]
    assert depth == pytest.approx(10.0)
    assert (x / depth, y / depth) == pytest.approx(pixel, abs=0.1)


def test_omnidrive_scene_has_six_cameras_with_consistent_matrices() -> None:
    names = config("omnidrive")["cameras"].split(",")
    scene = module("omnidrive").scene([f"{n}.jpeg" for n in names], names, "What next?", "k1")
    assert len(scene["lidar2img"]) == len(scene["img_filename"]) == 6 and scene["can_bus"].shape == (13,)
    assert np.allclose(scene["lidar2img"][3], scene["intrinsics"][3] @ scene["extrinsics"][3])


@pytest.mark.parametrize("size", [(800, 450), (900, 1600)])
def test_omnidrive_refuses_pictures_of_another_size(size: tuple[int, int]) -> None:
    """Its calibration is of 1600x900 pixels: another size would project to wrong places without an error."""

    def picture(name: str, pixels: tuple[int, int]) -> SimpleNamespace:
        return SimpleNamespace(name=name, pil=lambda: SimpleNamespace(size=pixels))

    module("omnidrive").check_sizes([picture("front", (1600, 900))])
    with pytest.raises(ValueError, match=rf"picture back: expected 1600x900, .* found {size[0]}x{size[1]}; .*--size"):
        module("omnidrive").check_sizes([picture("front", (1600, 900)), picture("back", size)])
