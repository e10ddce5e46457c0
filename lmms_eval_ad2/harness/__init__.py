"""Integration with lmms-eval (the only package that imports it): plugin, tasks, hooks, journal, judging, models."""
