"""HTML gallery of the threat scenarios of a folder."""
