"""E, the exact value of the reference, where float64 is not enough: the reference once more in numbers of many bits.

A dispatch mode (`mode`) records what the reference does as a graph over cells, one per element that was ever computed
(`graph`); moves of data (views, cat, gather, where) are run on the cells' numbers and need no rule each. Only the cells
behind the wanted elements are then evaluated, in ball arithmetic (`render.exact`): Arb's, a rigorous bound, or
mpmath's, where nobody has proved the functions.

An operation without a rule ends it: the answer is then its name. Nothing falls back to float64 silently.
"""
