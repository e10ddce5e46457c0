#!/bin/sh
# Evaluates open vision-language models on one GPU and writes one report; the same command resumes (docs/first-hour.md):
#   scripts/first_hour.sh NAME=WRAPPER,pretrained=FOLDER[,KEY=VALUE...] ... [--out DIR] [--device cuda] [--routes N] [--dry-run]
exec "$(dirname "$0")/staged.sh" first_hour.py "$@"
