"""Files on disk: atomic files, append-only journals, locks, identity of a run folder; one implementation each."""
