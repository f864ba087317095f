"""Functions of several arguments of the vendor's library."""
