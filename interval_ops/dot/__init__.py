"""Matrix products: enclosures of chains of dots on a target."""
