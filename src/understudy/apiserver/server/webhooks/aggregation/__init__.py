"""Aggregated API servers: what APIServices with a Service behind them name is answered elsewhere."""
