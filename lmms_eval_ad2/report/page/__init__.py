"""Parts of the HTML report page."""
