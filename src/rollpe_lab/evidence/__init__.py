"""What the runs say.

table.py is the results table beside the paper's, comparisons.py all comparisons under one recipe, compare.py
two groups of runs side by side, words.py what asserts under sentences say, inside.py measures of the arrays
beside records, spacing.py the factorial of frequencies.
"""
