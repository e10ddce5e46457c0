#!/bin/sh
# Runs Bench2Drive's own evaluator with our agent on the fake CARLA, and compares Bench2Drive's scoring scripts with
# `ad2 drive score` on the files that it wrote (docs/bench2drive.md). No GPU, no CARLA server; about two minutes.
#   scripts/verify_leaderboard.sh BENCH2DRIVE_CHECKOUT --agents PYTHONAPI_CARLA --maps FOLDER_OF_XODR [--routes ID,ID] [--out DIR]
# PYTHONAPI_CARLA contains CARLA's package `agents` (PythonAPI/carla of github.com/carla-simulator/carla).
# What the evaluator imports (py_trees 0.8.3, dictor, ...) is installed into a virtual environment of its own (--venv).
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
exec "$python" "$here/verify_leaderboard.py" "$@"
