"""The kinds of batch: jobs and cron jobs."""
