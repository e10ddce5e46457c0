"""What those do who cross the ego's way, stand in it, or open a door into it."""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *
