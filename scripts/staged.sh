#!/bin/sh
# Runs the Python script of its first argument with the interpreter of this checkout, else python3; for the scripts with stages.
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
if ! "$python" -P -c 'import lmms_eval_ad2, closedloop_plugin' 2>/dev/null; then
    echo "$python cannot import this project: python3 scripts/install.py --extras drive,models" >&2
    exit 2
fi
script=$1
shift
exec "$python" "$here/$script" "$@"
