"""The `ad2drive_*` tasks of lmms-eval, and the agent that wraps an lmms-eval model."""
