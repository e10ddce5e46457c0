"""Ways into the closed loop: the `ad2drive_*` tasks of lmms-eval, HTTP servers, evaluate()."""
