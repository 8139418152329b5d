"""Parts that the rules of several API groups share: metadata, formats, selectors, gated fields, table cells."""
