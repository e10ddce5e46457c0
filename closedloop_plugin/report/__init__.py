"""Results of drives for readers: sections of reports, comparisons, texts of scores, pictures and videos."""
