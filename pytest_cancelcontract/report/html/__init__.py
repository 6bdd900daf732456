"""The report as a page: histories become lanes (``lanes``), lanes become pictures (``picture``), and all of it one page (``page``)."""
