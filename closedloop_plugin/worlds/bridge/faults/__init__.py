"""Mistakes in Scenic programs, in one line each: file, line, what is wrong, and the words that are known there."""
