"""Roads of whole towns, read from OpenDRIVE: reference lines, lanes, junctions, route traces, cut-outs."""
