"""Users who act as others: the filter in `filter`, the rights that it takes in `modes`."""
