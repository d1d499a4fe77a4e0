"""Worker processes: claim an analysis, run it in a forked child, store its result. No web framework here."""
