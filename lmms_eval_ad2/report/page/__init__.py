"""HTML pages: the frame that all pages share, and the report page with its parts."""
