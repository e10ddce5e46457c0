"""CarlaServerRecord: a started server and its state, in one file per port, which only its supervisor replaces.

FOLDER/2000.json    the record; removed once the server has been ended
FOLDER/2000.log     output of the server and its supervisor; .log.1: of the previous run
FOLDER/2000.lock    locked while the supervisor runs
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from closedloop_plugin.carla.servers.processes import TOKEN, end, run_engine
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

COMPOSE_FILE = Path(__file__).resolve().parents[3] / "configs" / "carla" / "compose.yaml"


class CarlaServerRecord(BaseModel):
    """What a server is started with, and its state."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
    port: int = Field(ge=1, le=65535)
    token: str = Field(pattern="^[0-9a-f]{32}$")  # in the environment of its processes
    gpu: int | None = Field(default=None, ge=0, le=1024)
    binary: str = ""  # absolute path of CarlaUE4.sh, or else
    image: str = Field(default="", pattern="^([A-Za-z0-9][A-Za-z0-9_./:@-]*)?$")
    engine: Literal["docker", "podman"] = "docker"
    extra: tuple[str, ...] = ()  # further words of its command
    hang_s: float = 300.0  # without an answer until a restart, also at the start: a large town loads for minutes
    backoff_s: float = 2.0  # before the first restart; doubled each time, up to a minute
    stage: Literal["starting", "answers", "silent", "restarting", "failed"] = "starting"
    since: float = Field(default=0.0, ge=0, lt=1e11)  # time of this start, s since the epoch
    restarts: int = Field(default=0, ge=0, le=10**9)
    server_version: str = Field(default="", pattern="^[ -~]{0,40}$")
    reason: str = Field(default="", pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,1000}$")  # of the last restart or silence

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"

    @property
    def supervisor(self) -> str:
        """Token of its supervisor."""
        return f"{self.token}-supervisor"

    @property
    def container(self) -> str:
        return f"ad2-carla-{self.port}-{self.token[:12]}" if self.image else ""

    @property
    def command(self) -> list[str]:
        """Command line of the server, which stays in the foreground. In a container: see configs/carla."""
        if self.image:
            return [*self._compose, "up", "--no-color", "--abort-on-container-exit"]
        gpu = [] if self.gpu is None else [f"-graphicsadapter={self.gpu}"]
        return [self.binary, "-RenderOffScreen", "-nosound", f"-carla-rpc-port={self.port}", *gpu, *self.extra]

    @property
    def environment(self) -> dict[str, str]:
        gpu = "all" if self.gpu is None else str(self.gpu)
        compose = {"IMAGE": self.image, "NAME": self.container, "PORT": str(self.port), "GPU": gpu}
        compose |= {"ARGS": shlex.join(self.extra)}
        return {**os.environ, TOKEN: self.token, **{f"AD2_CARLA_{name}": text for name, text in compose.items()}}

    @property
    def _compose(self) -> list[str]:
        return [self.engine, "compose", "-p", self.container, "-f", str(COMPOSE_FILE)]

    def has_container(self) -> bool:
        return bool(self.image and run_engine(*self._compose, "ps", "-q").strip())

    def end_server(self) -> list[int]:
        """End all processes of the server and its container; returns the pids. Ad2Error: one does not end."""
        pids = end(self.token)
        if self.image:
            run_engine(*self._compose, "down")
        return pids

    def write(self, folder: Path) -> None:
        with atomic_write(folder / f"{self.port}.json") as out:
            out.write(self.model_dump_json(indent=1))


def read(folder: Path, port: int) -> CarlaServerRecord | None:
    """The record of a port; None if no server was started on it or it has been ended. Ad2Error: invalid file."""
    file = folder / f"{port}.json"
    try:
        record = CarlaServerRecord.model_validate_json(file.read_bytes())
        if record.port == port:
            return record
    except FileNotFoundError:
        return None
    except ValueError:
        pass
    raise Ad2Error(
        f"{file}: not a record of a CARLA server. Check with ps whether one of yours still runs, end it, and remove it"
    )


def read_all(folder: Path) -> list[CarlaServerRecord]:
    """All records, by port."""
    ports = sorted(int(f.stem) for f in folder.glob("*.json") if re.fullmatch(r"[0-9]{1,5}", f.stem))
    return [record for port in ports if (record := read(folder, port))]
