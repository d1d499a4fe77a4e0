"""From any source to the two vocabulary matrices, as a stream of row blocks. Nothing here unpickles or loads torch."""
