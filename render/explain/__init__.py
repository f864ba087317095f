"""Why a verdict is what it is: what would change it, how sharp it is, where its width and its NaN come from."""
