"""The closed loop: Bench2ADVLM on Bench2Drive's routes, in an embedded simulator or in CARLA (docs/closed-loop.md)."""
