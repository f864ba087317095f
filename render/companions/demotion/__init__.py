"""Which values of an fp32 kernel may be kept in fewer bits, with a certificate of the rewritten kernel."""
