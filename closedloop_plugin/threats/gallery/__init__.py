"""The HTML page that shows the threat scenarios of a folder."""
