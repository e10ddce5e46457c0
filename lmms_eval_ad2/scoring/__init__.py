"""Scoring of answers: samples (sample), judge ratings (judge_ratings), task tables (pipeline), files (result_files)."""
