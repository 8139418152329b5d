"""Validation of batch: jobs and cron jobs."""
