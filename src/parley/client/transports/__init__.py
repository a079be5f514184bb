"""One call or one stream over one interface of an agent: the three bindings and the connections below them."""
