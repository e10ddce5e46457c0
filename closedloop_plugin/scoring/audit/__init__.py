"""The audit of public Bench2Drive result files: reading a list, obtaining the files, scoring, comparing, reporting."""
