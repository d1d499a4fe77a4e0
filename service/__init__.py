"""The HTTP edge and the command line. No torch, no SQL."""
