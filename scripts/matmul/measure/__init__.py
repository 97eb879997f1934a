"""Timing, sampling, verification, and measuring one variant over a sweep."""
