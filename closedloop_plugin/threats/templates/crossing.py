"""Who crosses the ego's way, stands in it, or opens a door into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.draft import Draft
from closedloop_plugin.threats.spec import Behaviour

TEMPLATES: Mapping[Behaviour, Callable[[Draft], None]] = {}
