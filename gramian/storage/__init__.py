"""Rows and files: tables, repositories, one unit of work a request, blobs named by digest."""
