"""Program templates: one function per behaviour writes the lines below the ego."""
