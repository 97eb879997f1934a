"""What computes it: entries, their variants and layouts, and their schemas."""
