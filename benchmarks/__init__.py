"""Measurements of quality and speed, run by hand: `python -m benchmarks.NAME`. They are no part of the package."""
