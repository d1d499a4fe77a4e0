"""The shapes of the HTTP contract, a module a resource, and how rows become them."""
