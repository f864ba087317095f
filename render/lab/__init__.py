"""The project's own instruments: the adversary, the corpus and its replay. Only commands that offer them import it."""
