"""The function libraries an environment is put together from: declarations, and the functions behind them."""
