"""What the runs say.

table.py is the results table beside the paper's, families.py all comparisons under one recipe, comparison.py
two groups of runs side by side, words.py what asserts under sentences say, conditions.py the language of
older sentences and of rules, measures.py tables of their measures, spacing.py the factorial of frequencies,
inside.py what lies beside records of trained models.
"""
