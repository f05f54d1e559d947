"""Terminal tables, the HTML page, bundles."""
