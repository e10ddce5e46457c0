#!/bin/sh
# Checks this project against your CARLA server in about ten minutes, and prints a report to send back (docs/carla.md):
#   scripts/verify_carla.sh [host:port] [--out DIR] [--town NAME] [--quick]
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
exec "$python" "$here/verify_carla.py" "$@"
