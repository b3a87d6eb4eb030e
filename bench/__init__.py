"""Measures Outlast as ratios against primitives and peers, alternating in one run."""
