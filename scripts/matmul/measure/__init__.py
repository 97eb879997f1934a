"""Timing, sampling, verification, and one variant over a sweep."""
