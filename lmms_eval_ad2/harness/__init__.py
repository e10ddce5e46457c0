"""The only room that imports lmms_eval: entry point, data, hooks, journal, judging, rounds, models."""
