"""CarlaServerSpec: a server to start, with port, GPU and program. All options are checked before a start."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error

ENGINES = ("docker", "podman")
# A server uses three consecutive ports, the traffic manager of its client a fourth (as in Scenic).
SPAN = {"RPC": 0, "streaming": 1, "secondary": 2}
TRAFFIC_MANAGER = 6000
HANG_S = 300.0  # the server is silent for minutes while it loads a large town


@dataclass(frozen=True)
class CarlaServerSpec:
    """One server to start."""

    port: int
    gpu: int | None = None
    binary: str = ""  # absolute path of CarlaUE4.sh, or else
    image: str = ""  # a container image
    engine: str = "docker"
    quality: str = ""
    extra: tuple[str, ...] = ()
    hang_s: float = HANG_S  # without an answer until it is restarted, also at the start
    backoff_s: float = 2.0  # before the first restart; doubled each time, up to a minute

    @property
    def what(self) -> str:
        return self.image or self.binary

    def command(self, name: str) -> list[str]:
        """Command line of the server. `name`: of the container.

        A container sees one GPU, so only the binary gets -graphicsadapter. The images start in CARLA's folder as its
        user; rendering off screen needs no privileges.
        """
        server = ["-RenderOffScreen", "-nosound", f"-carla-rpc-port={self.port}"]
        if self.gpu is not None and self.binary:
            server.append(f"-graphicsadapter={self.gpu}")
        if self.quality:
            server.append(f"-quality-level={self.quality}")
        server += self.extra
        if self.binary:
            return [self.binary, *server]
        run = [self.engine, "run", "--rm", "--name", name, "--net=host", "-e", "NVIDIA_DRIVER_CAPABILITIES=all"]
        return [*run, *self._gpu_of_container(), self.image, "bash", "CarlaUE4.sh", *server]

    def _gpu_of_container(self) -> list[str]:
        gpu = "all" if self.gpu is None else str(self.gpu)
        if self.engine == "podman":
            return ["--device", f"nvidia.com/gpu={gpu}", "--security-opt=label=disable"]
        return ["--gpus", gpu if gpu == "all" else f"device={gpu}"]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CarlaServerSpec:
        return cls(**{**data, "extra": tuple(data["extra"])})


def server_specs(ports: Sequence[int], gpus: Sequence[int], **what: Any) -> list[CarlaServerSpec]:
    """Checked specs, one per port. `gpus`: empty, one for all, or one per port."""
    if len(gpus) > 1 and len(gpus) != len(ports):
        raise Ad2Error(f"--gpus names {len(gpus)} GPUs, --ports {len(ports)} servers; give one GPU, or one for each")
    wanted = list(gpus) if len(gpus) > 1 else [gpus[0] if gpus else None] * len(ports)
    made = [CarlaServerSpec(port, gpu, **what) for port, gpu in zip(ports, wanted, strict=True)]
    _check_ports(ports)
    _check_program(made[0])
    return made


def _check_ports(ports: Sequence[int]) -> None:
    if not ports:
        raise Ad2Error("--ports names no port; expected some, such as 2000,2010")
    taken: dict[int, int] = {}
    for port in ports:
        if not 1024 <= port <= 65535 - TRAFFIC_MANAGER:
            raise Ad2Error(f"--ports {port}: expected 1024 to {65535 - TRAFFIC_MANAGER} (the traffic manager is +6000)")
        for offset in (*SPAN.values(), TRAFFIC_MANAGER):
            if (other := taken.setdefault(port + offset, port)) != port or ports.count(port) > 1:
                raise Ad2Error(
                    f"--ports {other} and {port} overlap: a server takes P, P+1, P+2 and P+6000; give 2000,2010,2020"
                )


def _check_program(spec: CarlaServerSpec) -> None:
    if bool(spec.binary) == bool(spec.image):
        raise Ad2Error("give what to start: --binary PATH/CarlaUE4.sh, or --image IMAGE (one of them)")
    if spec.image:
        if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", spec.image):
            raise Ad2Error(f"--image {spec.image}: expected an image's name, such as carlasim/carla:0.9.16")
        if spec.engine not in ENGINES or not shutil.which(spec.engine):
            raise Ad2Error(
                f"--container-engine {spec.engine}: not found on PATH; expected {' or '.join(ENGINES)}, installed"
            )
        return
    file = Path(spec.binary)
    if not file.is_file():
        hint = f"; there is {file / 'CarlaUE4.sh'}" if (file / "CarlaUE4.sh").is_file() else ""
        raise Ad2Error(f"--binary {file}: no such file{hint}; expected CarlaUE4.sh of an unpacked CARLA release")
    if not os.access(file, os.X_OK):
        raise Ad2Error(f"--binary {file}: not executable; chmod +x {file}")


def taken(port: int, *, traffic_manager: bool) -> str:
    """Message about a port of the server that another process uses; empty if all are free.

    `traffic_manager`: check its port too. While episodes run, that one belongs to the client, not the server.
    """
    spans = {**SPAN, **({"traffic manager": TRAFFIC_MANAGER} if traffic_manager else {})}
    for role, offset in spans.items():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # ports in TIME_WAIT of a dead server count as free
            try:
                sock.bind(("", port + offset))
            except OSError:
                return f"port {port + offset} ({role} of the server on {port}) is in use by another process"
    return ""
