#!/bin/sh
# Evaluates open vision-language models on one GPU and writes one report; the same command resumes (docs/first-hour.md):
#   scripts/first_hour.sh NAME=WRAPPER,pretrained=FOLDER[,KEY=VALUE...] ... [--out DIR] [--device cuda] [--routes N] [--dry-run]
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
command -v "$python" >/dev/null 2>&1 || python=python3
if ! "$python" -P -c 'import lmms_eval_ad2, closedloop_plugin' 2>/dev/null; then
    echo "$python cannot import this project: python3 scripts/install.py --extras drive,models" >&2
    exit 2
fi
exec "$python" "$here/first_hour.py" "$@"
