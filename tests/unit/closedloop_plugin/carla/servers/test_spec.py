"""Server specs and their checks."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from support.carla.standin import binary, engine, free_ports

from closedloop_plugin.carla.servers.spec import CarlaServerSpec, server_specs, taken
from lmms_eval_ad2.errors import Ad2Error


def test_the_command_of_a_binary() -> None:
    spec = CarlaServerSpec(2010, 1, binary="/c/CarlaUE4.sh", quality="Low", extra=("-fps=20",))
    assert spec.command("unused") == [
        "/c/CarlaUE4.sh", "-RenderOffScreen", "-nosound", "-carla-rpc-port=2010", "-graphicsadapter=1",
        "-quality-level=Low", "-fps=20",
    ]  # fmt: skip
    assert not any("graphicsadapter" in argument for argument in CarlaServerSpec(2000, binary="/c").command("unused"))


def test_the_command_of_a_container() -> None:
    command = " ".join(CarlaServerSpec(2000, 1, image="carlasim/carla:0.9.16").command("name"))
    assert command.startswith("docker run --rm --name name --net=host ")
    assert "--gpus device=1" in command and "graphicsadapter" not in command
    assert command.endswith("carlasim/carla:0.9.16 bash CarlaUE4.sh -RenderOffScreen -nosound -carla-rpc-port=2000")
    assert "--gpus all" in " ".join(CarlaServerSpec(2000, image="i").command("name"))
    podman = " ".join(CarlaServerSpec(2000, 1, image="i", engine="podman").command("name"))
    assert "--device nvidia.com/gpu=1" in podman and "--gpus" not in podman


def test_a_spec_round_trips_through_json() -> None:
    spec = CarlaServerSpec(2010, 1, binary="/c/CarlaUE4.sh", extra=("-a", "b c"))
    assert CarlaServerSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_gpus_are_given_once_for_all_servers_or_per_server(tmp_path: Path) -> None:
    file = str(binary(tmp_path))
    assert [j.gpu for j in server_specs([2000, 2010], [], binary=file)] == [None, None]
    assert [j.gpu for j in server_specs([2000, 2010], [3], binary=file)] == [3, 3]
    assert [j.gpu for j in server_specs([2000, 2010], [0, 1], binary=file)] == [0, 1]
    with pytest.raises(Ad2Error, match="names 2 GPUs, --ports 3"):
        server_specs([2000, 2010, 2020], [0, 1], binary=file)


@pytest.mark.parametrize("ports", [[2000, 2000], [2000, 2002], [2000, 8000], [2001, 8000], [8000, 2000]])
def test_overlapping_ports_are_refused(ports: list[int], tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="overlap"):
        server_specs(ports, [], binary=str(binary(tmp_path)))


@pytest.mark.parametrize("port", [0, 80, 59536, 99999])
def test_ports_out_of_range_are_refused(port: int, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="expected 1024 to 59535"):
        server_specs([port], [], binary=str(binary(tmp_path)))


def test_the_server_program_must_exist_and_be_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = binary(tmp_path)
    with pytest.raises(Ad2Error, match="no such file; there is"):
        server_specs([2000], [], binary=str(tmp_path))
    with pytest.raises(Ad2Error, match="no such file"):
        server_specs([2000], [], binary=str(tmp_path / "other.sh"))
    file.chmod(0o644)
    with pytest.raises(Ad2Error, match=r"not executable; chmod \+x"):
        server_specs([2000], [], binary=str(file))
    for options in ({}, {"binary": str(file), "image": "i"}):
        with pytest.raises(Ad2Error, match="one of them"):
            server_specs([2000], [], **options)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Ad2Error, match="not found on PATH"):
        server_specs([2000], [], image="i", engine="podman")
    engine(tmp_path, "podman")
    assert server_specs([2000], [], image="i", engine="podman")[0].engine == "podman"


@pytest.mark.parametrize("image", ["--privileged", "a b", "x;y", "-v/:/x"])
def test_an_invalid_image_name_is_refused(image: str) -> None:
    with pytest.raises(Ad2Error, match="expected an image's name"):
        server_specs([2000], [], image=image)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("offset", "role"), [(0, "RPC"), (1, "streaming"), (2, "secondary"), (6000, "traffic manager")]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_reported_with_its_role(offset: int, role: str, host: str) -> None:
    (port,) = free_ports()
    with socket.create_server((host, port + offset)):
        assert role in taken(port, traffic_manager=True)
        assert bool(taken(port, traffic_manager=False)) == (offset < 6000)
    assert taken(port, traffic_manager=True) == ""
