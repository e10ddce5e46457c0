"""The closed loop's part of `ad2`: argument parsing, and the entry points that bring it (setup.cfg)."""
