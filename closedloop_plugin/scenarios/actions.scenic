"""Imports everything that custom scenarios use: places, and behaviours. The reference is docs/threats.md."""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *
from closedloop_plugin.scenarios.actions_traffic import *
from closedloop_plugin.scenarios.actions_crossing import *
