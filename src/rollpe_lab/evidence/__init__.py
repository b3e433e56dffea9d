"""What the runs say.

table.py is the results table beside the paper's, families.py all comparisons under one recipe, comparison.py
two groups of runs side by side, conditions.py the language of sentences and rules, measures.py tables of
their measures, spacing.py the factorial of frequencies, inside.py what lies beside records of trained models.
"""
