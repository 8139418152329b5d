"""Workloads, jobs and what scales them: what may stand in their specs."""
