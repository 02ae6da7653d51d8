"""Objectives: what share of jobs is to start in time or to succeed, how much may go wrong, and how fast it does.

declared (code, file) ─► checked ─► published in the catalogue ─► read with the figures ─► a standing of each
"""
