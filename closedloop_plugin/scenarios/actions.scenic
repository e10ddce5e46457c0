"""What a scenario of one's own is made of, in one import; docs/threats.md is its manual."""

model scenic.domains.driving.model

from closedloop_plugin.scenarios.places import *
from closedloop_plugin.scenarios.actions_traffic import *
from closedloop_plugin.scenarios.actions_crossing import *
