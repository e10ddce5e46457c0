"""Hypothesis strategies of sites: streets, and junctions with every control and topology."""

from __future__ import annotations

from hypothesis import strategies as st
from support.threats.threat_requests import crossing, site

streets = st.builds(
    site,
    length_m=st.floats(30, 400), trigger_s=st.floats(0, 40), speed_limit=st.sampled_from([8.33, 13.89, 25.0, 30.0]),
    left=st.integers(0, 2), right=st.integers(0, 2), oncoming=st.integers(0, 2),
)  # fmt: skip
crossings = st.builds(
    crossing,
    length_m=st.floats(50, 200), trigger_s=st.floats(0, 20),
    junction=st.tuples(st.floats(5, 30), st.floats(31, 60)),
    control=st.sampled_from(["signal", "stop", "yield", "none"]),
    topology=st.sampled_from(["junction", "merge", "diverge", "town"]), left=st.integers(0, 1), right=st.integers(0, 1),
    oncoming=st.integers(0, 1), arms=st.sampled_from([(), ("entry", "exit"), ("entry", "exit", "left", "right")]),
)  # fmt: skip
any_site = streets | crossings
