"""What a classification says, as plain data: verdict, codes, records of explanations, errors, the decision table."""
