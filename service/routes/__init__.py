"""Thin routes: parse, one call, return."""
