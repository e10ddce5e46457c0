"""`python -m closedloop_plugin.carla.servers FOLDER SPEC`: a server's supervisor, started by lifecycle.py only."""

import json
import sys
from pathlib import Path

from closedloop_plugin.carla.servers.spec import CarlaServerSpec
from closedloop_plugin.carla.servers.supervisor import CarlaServerSupervisor
from lmms_eval_ad2.errors import Ad2Error

try:
    CarlaServerSupervisor(CarlaServerSpec.from_json(json.loads(sys.argv[2])), Path(sys.argv[1])).run()
except Ad2Error as exc:
    raise SystemExit(f"[ad2] {exc}") from None
