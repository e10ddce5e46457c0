#!/bin/sh
# Collects, labels, trains, drives and reports, from nothing to a row of the table; the same command resumes (docs/learn.md):
#   scripts/learn.sh [--out DIR] [--seed S] [--scale SHARE] [--suite NAME] [--dry-run]
exec "$(dirname "$0")/staged.sh" learn.py "$@"
