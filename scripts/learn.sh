#!/bin/sh
# Collects, labels, trains, drives and reports, from nothing to a row of the table; the same command resumes (docs/learn.md):
#   scripts/learn.sh [--out DIR] [--seed S] [--scale SHARE] [--suite NAME] [--dry-run]
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
if ! "$python" -P -c 'import lmms_eval_ad2, closedloop_plugin' 2>/dev/null; then
    echo "$python cannot import this project: python3 scripts/install.py --extras drive,models" >&2
    exit 2
fi
exec "$python" "$here/learn.py" "$@"
